#include "textflag.h"

// System calls.
#define FCNTL 25
#define IOCTL 29
#define CHDIR 49
#define CLOSE 57
#define WRITE 64
#define EXITGROUP 94
#define WAITID 95
#define KILL 129
#define SIGACTION 134
#define SIGPROCMASK 135
#define SETSID 157
#define PRCTL 167
#define GETPID 172
#define CLONE 220
#define EXECVE 221
#define WAIT4 260
#define PRLIMIT 261
#define CLOSERANGE 436

// func parentCode() (start unsafe.Pointer, machine uint16)
TEXT ·parentCode(SB),NOSPLIT,$0-10
	MOVD	$parent<>(SB), R0
	MOVD	R0, start+0(FP)
	MOVD	$183, R0
	MOVH	R0, machine+8(FP)
	RET

// parent is a program, see parentProgram. What follows is copied, so it names no other symbol. A system call changes R0 alone.
//
// R19: argc, argv and the environment, as the kernel has put them. R20: memory of ours below: what is blocked (0), what was (8),
// why the command does not run (16), its number, and how it ended (24), a name (32), zeros (64 to 96).
TEXT parent<>(SB),NOSPLIT|NOFRAME,$0
	MOVD	RSP, R19
	SUB	$128, R19, R20
	MOVD	R20, RSP
	MOVD	$-1, R0
	MOVD	R0, 0(R20)
	MOVD	ZR, 8(R20)
	MOVD	ZR, 16(R20)
	MOVD	ZR, 64(R20)
	MOVD	ZR, 72(R20)
	MOVD	ZR, 80(R20)
	MOVD	ZR, 88(R20)
	MOVD	(R19), R0
	ADD	$16, R19, R21
	ADD	R0<<3, R21, R21 // the environment
	MOVD	16(R19), R1 // argv[1]: the terminal's number or '-', and that of the pipe
	MOVBU	(R1), R22
	SUB	$48, R22, R22
	MOVD	ZR, R23
	MOVD	$10, R3
digit:
	ADD	$1, R1, R1
	MOVBU	(R1), R0
	CMP	$48, R0
	BLO	parsed
	SUB	$48, R0, R0
	MUL	R3, R23, R23
	ADD	R0, R23, R23
	B	digit
parsed:
	ADD	$1, R23, R0 // this program
	MOVD	$CLOSE, R8
	SVC
	MOVD	R23, R0
	MOVD	$2, R1 // F_SETFD
	MOVD	$1, R2 // FD_CLOEXEC
	MOVD	$FCNTL, R8
	SVC
	MOVD	$4, R0 // PR_SET_DUMPABLE
	MOVD	ZR, R1
	MOVD	$PRCTL, R8
	SVC
	MOVD	$15, R0 // PR_SET_NAME
	MOVD	8(R19), R1
	MOVD	$PRCTL, R8
	SVC
	MOVD	$2, R0 // SIG_SETMASK
	MOVD	R20, R1
	ADD	$8, R20, R2
	MOVD	$8, R3
	MOVD	$SIGPROCMASK, R8
	SVC
	MOVD	$0x4111, R0 // CLONE_VM | CLONE_VFORK | SIGCHLD
	MOVD	ZR, R1
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	$CLONE, R8
	SVC
	MOVD	R0, R24 // the child's number, 0 in the child; below 0 there is none, and this process becomes the command
	CMP	$0, R24
	BGT	parent
	BLT	become

	MOVD	$GETPID, R8
	SVC
	MOVD	R0, 24(R20)
	MOVD	R23, R0
	ADD	$24, R20, R1
	MOVD	$8, R2
	MOVD	$WRITE, R8
	SVC
become:
	MOVD	$2, R0
	ADD	$8, R20, R1
	MOVD	ZR, R2
	MOVD	$8, R3
	MOVD	$SIGPROCMASK, R8
	SVC
	MOVD	$SETSID, R8
	SVC
	CMP	$2, R22
	BHI	execute
	MOVD	R22, R0
	MOVD	$0x540e, R1 // TIOCSCTTY
	MOVD	ZR, R2
	MOVD	$IOCTL, R8
	SVC
execute:
	MOVD	24(R19), R0
	ADD	$32, R19, R1
	MOVD	R21, R2
	MOVD	$EXECVE, R8
	SVC
	CMN	$8, R0 // ENOEXEC: a script without an interpreter line, as shells take it
	BNE	failed
	MOVD	24(R19), R0
	MOVD	R0, 32(R19)
	MOVD	$0x0068732f6e69622f, R0 // "/bin/sh"
	MOVD	R0, 32(R20)
	ADD	$32, R20, R0
	MOVD	R0, 24(R19)
	ADD	$24, R19, R1
	MOVD	R21, R2
	MOVD	$EXECVE, R8
	SVC
failed:
	MOVD	R0, 16(R20)
	MOVD	R23, R0
	ADD	$16, R20, R1
	MOVD	$8, R2
	MOVD	$WRITE, R8
	SVC
	MOVD	$127, R0
	B	exit

parent:
	MOVD	16(R20), R1
	MOVD	$127, R0
	CBNZ	R1, exit
	MOVD	ZR, R0 // what the command has open, it alone has
	MOVD	$0xffffffff, R1
	MOVD	ZR, R2
	MOVD	$CLOSERANGE, R8
	SVC
	MOVD	$0x2f, R0 // "/"
	MOVD	R0, 32(R20)
	ADD	$32, R20, R0
	MOVD	$CHDIR, R8
	SVC
	MOVD	16(R19), R0 // the command's arguments are not ours
	MOVD	(R21), R1
clear:
	CMP	R1, R0
	BHS	wait
	MOVB	ZR, (R0)
	ADD	$1, R0, R0
	B	clear
wait: // without reaping it: who is killed in the middle of that has not told how it ended
	MOVD	$1, R0 // P_PID
	MOVD	R24, R1
	MOVD	ZR, R2
	MOVD	$0x1000004, R3 // WEXITED | WNOWAIT
	MOVD	ZR, R4
	MOVD	$WAITID, R8
	SVC
	CMN	$4, R0 // EINTR
	BEQ	wait
	MOVD	R24, R0
	ADD	$24, R20, R1
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	$WAIT4, R8
	SVC
	MOVWU	24(R20), R0
	AND	$0x7f, R0, R22
	CBNZ	R22, signalled
	LSR	$8, R0, R0
	AND	$0xff, R0, R0
exit:
	MOVD	$EXITGROUP, R8
	SVC
	B	exit

signalled:
	MOVD	ZR, R0
	MOVD	$4, R1 // RLIMIT_CORE
	ADD	$64, R20, R2
	MOVD	ZR, R3
	MOVD	$PRLIMIT, R8
	SVC
	MOVD	R22, R0
	ADD	$64, R20, R1 // SIG_DFL
	MOVD	ZR, R2
	MOVD	$8, R3
	MOVD	$SIGACTION, R8
	SVC
	MOVD	$2, R0
	ADD	$64, R20, R1
	MOVD	ZR, R2
	MOVD	$8, R3
	MOVD	$SIGPROCMASK, R8
	SVC
	MOVD	$GETPID, R8
	SVC
	MOVD	R22, R1
	MOVD	$KILL, R8
	SVC
	ADD	$128, R22, R0
	B	exit
	WORD $0x6f646e65; WORD $0x2e746966
