#include "go_asm.h"
#include "textflag.h"

// func cloneVM(s *Script, call, first, second uintptr) (r uintptr)
//
// The child uses registers only: its stack pointer is the parent's, and it never
// follows it. It is runCalls.
TEXT ·cloneVM(SB),NOSPLIT,$0-40
	MOVQ	s+0(FP), R12 // a system call changes AX, CX and R11 alone
	MOVQ	call+8(FP), AX
	MOVQ	first+16(FP), DI
	MOVQ	second+24(FP), SI // of clone: the stack, which is ours
	XORL	DX, DX
	XORL	R10, R10
	XORL	R8, R8
	SYSCALL
	TESTQ	AX, AX
	JEQ	child
	MOVQ	AX, r+32(FP)
	RET

child:
	XORL	BX, BX // the call's number
next:
	CMPL	BX, Script_n(R12)
	JCC	over
	CMPL	BX, $const_maxCalls
	JCC	over
	IMUL3Q	$Call__size, BX, R13
	LEAQ	Script_calls(R12)(R13*1), R13
	CMPB	Call_Unless(R13), $0
	JEQ	do
	CMPB	Script_Noted(R12), $0
	JNE	done
do:
	MOVQ	Call_nr(R13), AX
	MOVQ	(Call_args+0)(R13), DI
	MOVQ	(Call_args+8)(R13), SI
	MOVQ	(Call_args+16)(R13), DX
	MOVQ	(Call_args+24)(R13), R10
	MOVQ	(Call_args+32)(R13), R8
	MOVQ	(Call_args+40)(R13), R9
	SYSCALL
	CMPQ	AX, $-4095
	JCC	failed
	CMPB	Call_Fails(R13), $0
	JNE	unfailed
	CMPB	Call_checked(R13), $0
	JEQ	succeeded
	CMPQ	AX, Call_want(R13)
	JEQ	succeeded
	MOVL	$5, AX // EIO
	JMP	stop
succeeded:
	CMPL	Call_Above(R13), $0
	JEQ	done
	TESTQ	AX, AX
	JEQ	done
	MOVL	Call_Above(R13), BX
	JMP	next
unfailed:
	XORL	AX, AX
	JMP	stop
failed:
	CMPB	Call_Fails(R13), $0
	JNE	done
	NEGQ	AX
	CMPQ	AX, Call_May(R13)
	JNE	stop
	CMPB	Call_Note(R13), $0
	JEQ	done
	MOVB	$1, Script_Noted(R12)
done:
	INCL	BX
	JMP	next

over:
	MOVL	$125, AX // ECANCELED
	MOVL	$const_maxCalls, BX
stop:
	INCL	BX
	MOVL	AX, Script_errno(R12)
	MOVL	BX, Script_failed(R12)
exit:
	MOVL	$1, DI
	MOVL	$231, AX // exit_group
	SYSCALL
	JMP	exit
