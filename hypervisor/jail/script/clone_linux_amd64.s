#include "go_asm.h"
#include "textflag.h"

// func cloneVM(s *Script) (r uintptr)
//
// The child uses registers only: its stack pointer is the parent's, and it never
// follows it. It is runCalls.
TEXT ·cloneVM(SB),NOSPLIT,$0-16
	MOVQ	s+0(FP), R12 // a system call changes AX, CX and R11 alone
	LEAQ	Script_clone(R12), DI
	MOVL	$64, SI // the first version's size
	MOVL	$435, AX // clone3
	SYSCALL
	TESTQ	AX, AX
	JEQ	child
	MOVQ	AX, r+8(FP)
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
	JEQ	done
	CMPQ	AX, Call_want(R13)
	JEQ	done
	MOVL	$5, AX // EIO
	JMP	stop
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
