#include "textflag.h"

// System calls.
#define WRITE 1
#define CLOSE 3
#define SIGACTION 13
#define SIGPROCMASK 14
#define IOCTL 16
#define GETPID 39
#define CLONE 56
#define EXECVE 59
#define WAIT4 61
#define KILL 62
#define FCNTL 72
#define CHDIR 80
#define SETSID 112
#define PRCTL 157
#define EXITGROUP 231
#define WAITID 247
#define PRLIMIT 302
#define CLOSERANGE 436

// func parentCode() (start unsafe.Pointer, machine uint16)
TEXT ·parentCode(SB),NOSPLIT,$0-10
	LEAQ	parent<>(SB), AX
	MOVQ	AX, start+0(FP)
	MOVW	$62, machine+8(FP)
	RET

// parent is a program, see parentProgram. What follows is copied, so it names no other symbol. A system call changes AX, CX and R11 alone.
//
// R12: argc, argv and the environment, as the kernel has put them. R9: memory of ours below: what is blocked (0), what was (8),
// why the command does not run (16), its number, and how it ended (24), a name (32), zeros (64 to 96).
TEXT parent<>(SB),NOSPLIT|NOFRAME,$0
	MOVQ	SP, R12
	LEAQ	-128(R12), R9
	MOVQ	$-1, AX
	MOVQ	AX, 0(R9)
	XORL	AX, AX
	MOVQ	AX, 8(R9)
	MOVQ	AX, 16(R9)
	MOVQ	AX, 64(R9)
	MOVQ	AX, 72(R9)
	MOVQ	AX, 80(R9)
	MOVQ	AX, 88(R9)
	MOVQ	(R12), AX
	LEAQ	16(R12)(AX*8), R13 // the environment
	MOVQ	16(R12), SI // argv[1]: the terminal's number or '-', and that of the pipe
	MOVBLZX	(SI), R14
	SUBL	$'0', R14
	XORL	BX, BX
digit:
	INCQ	SI
	MOVBLZX	(SI), AX
	SUBL	$'0', AX
	JCS	parsed
	LEAQ	(BX)(BX*4), BX
	LEAQ	(AX)(BX*2), BX
	JMP	digit
parsed:
	LEAL	1(BX), DI // this program
	MOVL	$CLOSE, AX
	SYSCALL
	MOVL	BX, DI
	MOVL	$2, SI // F_SETFD
	MOVL	$1, DX // FD_CLOEXEC
	MOVL	$FCNTL, AX
	SYSCALL
	MOVL	$4, DI // PR_SET_DUMPABLE
	XORL	SI, SI
	MOVL	$PRCTL, AX
	SYSCALL
	MOVL	$15, DI // PR_SET_NAME
	MOVQ	8(R12), SI
	MOVL	$PRCTL, AX
	SYSCALL
	MOVL	$2, DI // SIG_SETMASK
	LEAQ	0(R9), SI
	LEAQ	8(R9), DX
	MOVL	$8, R10
	MOVL	$SIGPROCMASK, AX
	SYSCALL
	MOVL	$0x4111, DI // CLONE_VM | CLONE_VFORK | SIGCHLD
	XORL	SI, SI
	XORL	DX, DX
	XORL	R10, R10
	XORL	R8, R8
	MOVL	$CLONE, AX
	SYSCALL
	MOVQ	AX, R15 // the child's number, 0 in the child; below 0 there is none, and this process becomes the command
	TESTQ	AX, AX
	JGT	parent
	JLT	become

	MOVL	$GETPID, AX
	SYSCALL
	MOVQ	AX, 24(R9)
	MOVL	BX, DI
	LEAQ	24(R9), SI
	MOVL	$8, DX
	MOVL	$WRITE, AX
	SYSCALL
become:
	MOVL	$2, DI
	LEAQ	8(R9), SI
	XORL	DX, DX
	MOVL	$8, R10
	MOVL	$SIGPROCMASK, AX
	SYSCALL
	MOVL	$SETSID, AX
	SYSCALL
	CMPL	R14, $2
	JHI	execute
	MOVL	R14, DI
	MOVL	$0x540e, SI // TIOCSCTTY
	XORL	DX, DX
	MOVL	$IOCTL, AX
	SYSCALL
execute:
	MOVQ	24(R12), DI
	LEAQ	32(R12), SI
	MOVQ	R13, DX
	MOVL	$EXECVE, AX
	SYSCALL
	CMPQ	AX, $-8 // ENOEXEC: a script without an interpreter line, as shells take it
	JNE	failed
	MOVQ	24(R12), AX
	MOVQ	AX, 32(R12)
	MOVQ	$0x0068732f6e69622f, AX // "/bin/sh"
	MOVQ	AX, 32(R9)
	LEAQ	32(R9), DI
	MOVQ	DI, 24(R12)
	LEAQ	24(R12), SI
	MOVQ	R13, DX
	MOVL	$EXECVE, AX
	SYSCALL
failed:
	MOVQ	AX, 16(R9)
	MOVL	BX, DI
	LEAQ	16(R9), SI
	MOVL	$8, DX
	MOVL	$WRITE, AX
	SYSCALL
	MOVL	$127, DI
	JMP	exit

parent:
	MOVL	$127, DI
	CMPQ	16(R9), $0
	JNE	exit
	XORL	DI, DI // what the command has open, it alone has
	MOVL	$-1, SI
	XORL	DX, DX
	MOVL	$CLOSERANGE, AX
	SYSCALL
	MOVQ	$0x2f, AX // "/"
	MOVQ	AX, 32(R9)
	LEAQ	32(R9), DI
	MOVL	$CHDIR, AX
	SYSCALL
	MOVQ	16(R12), DI // the command's arguments are not ours
	MOVQ	(R13), CX
	TESTQ	CX, CX
	JEQ	wait
	SUBQ	DI, CX
	JLS	wait
	XORL	AX, AX
	CLD
	REP; STOSB
wait: // without reaping it: who is killed in the middle of that has not told how it ended
	MOVL	$1, DI // P_PID
	MOVQ	R15, SI
	XORL	DX, DX
	MOVL	$0x1000004, R10 // WEXITED | WNOWAIT
	XORL	R8, R8
	MOVL	$WAITID, AX
	SYSCALL
	CMPQ	AX, $-4 // EINTR
	JEQ	wait
	MOVQ	R15, DI
	LEAQ	24(R9), SI
	XORL	DX, DX
	XORL	R10, R10
	MOVL	$WAIT4, AX
	SYSCALL
	MOVL	24(R9), DI
	MOVL	DI, R14
	ANDL	$0x7f, R14
	JNE	signalled
	SHRL	$8, DI
	ANDL	$0xff, DI
exit:
	MOVL	$EXITGROUP, AX
	SYSCALL
	JMP	exit

signalled:
	XORL	DI, DI
	MOVL	$4, SI // RLIMIT_CORE
	LEAQ	64(R9), DX
	XORL	R10, R10
	MOVL	$PRLIMIT, AX
	SYSCALL
	MOVL	R14, DI
	LEAQ	64(R9), SI // SIG_DFL
	XORL	DX, DX
	MOVL	$8, R10
	MOVL	$SIGACTION, AX
	SYSCALL
	MOVL	$2, DI
	LEAQ	64(R9), SI
	XORL	DX, DX
	MOVL	$8, R10
	MOVL	$SIGPROCMASK, AX
	SYSCALL
	MOVL	$GETPID, AX
	SYSCALL
	MOVL	AX, DI
	MOVL	R14, SI
	MOVL	$KILL, AX
	SYSCALL
	LEAL	128(R14), DI
	JMP	exit
	BYTE $'e'; BYTE $'n'; BYTE $'d'; BYTE $'o'; BYTE $'f'; BYTE $'i'; BYTE $'t'; BYTE $'.'
