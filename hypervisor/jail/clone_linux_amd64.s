#include "go_asm.h"
#include "textflag.h"

// func cloneVM(s *script) (r uintptr)
//
// The child uses registers only: its stack pointer is the parent's, and it never
// follows it. It is runCalls.
TEXT ·cloneVM(SB),NOSPLIT,$0-16
	MOVQ	s+0(FP), R12 // a system call changes AX, CX and R11 alone
	LEAQ	script_clone(R12), DI
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
	CMPL	BX, script_n(R12)
	JCC	over
	CMPL	BX, $const_maxCalls
	JCC	over
	IMUL3Q	$call__size, BX, R13
	LEAQ	script_calls(R12)(R13*1), R13
	CMPB	call_unless(R13), $0
	JEQ	do
	CMPB	script_noted(R12), $0
	JNE	done
do:
	MOVQ	call_nr(R13), AX
	MOVQ	(call_args+0)(R13), DI
	MOVQ	(call_args+8)(R13), SI
	MOVQ	(call_args+16)(R13), DX
	MOVQ	(call_args+24)(R13), R10
	MOVQ	(call_args+32)(R13), R8
	MOVQ	(call_args+40)(R13), R9
	SYSCALL
	CMPQ	AX, $-4095
	JCC	failed
	CMPB	call_checked(R13), $0
	JEQ	done
	CMPQ	AX, call_want(R13)
	JEQ	done
	MOVL	$5, AX // EIO
	JMP	stop
failed:
	NEGQ	AX
	CMPQ	AX, call_may(R13)
	JNE	stop
	CMPB	call_note(R13), $0
	JEQ	done
	MOVB	$1, script_noted(R12)
done:
	INCL	BX
	JMP	next

over:
	MOVL	$125, AX // ECANCELED
	MOVL	$const_maxCalls, BX
stop:
	INCL	BX
	MOVL	AX, script_errno(R12)
	MOVL	BX, script_failed(R12)
exit:
	MOVL	$1, DI
	MOVL	$231, AX // exit_group
	SYSCALL
	JMP	exit
