#include "textflag.h"

// func getrlimit(l *limit)
TEXT ·getrlimit(SB),NOSPLIT,$0-8
	MOVQ	l+0(FP), R10 // the old limit
	XORL	DI, DI // this process
	MOVL	$7, SI // RLIMIT_NOFILE
	XORL	DX, DX // no new one
	MOVL	$302, AX // prlimit64
	SYSCALL
	RET
