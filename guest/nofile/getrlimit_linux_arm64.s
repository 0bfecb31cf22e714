#include "textflag.h"

// func getrlimit(l *limit)
TEXT ·getrlimit(SB),NOSPLIT,$0-8
	MOVD	$0, R0 // this process
	MOVD	$7, R1 // RLIMIT_NOFILE
	MOVD	$0, R2 // no new one
	MOVD	l+0(FP), R3 // the old limit
	MOVD	$261, R8 // prlimit64
	SVC
	RET
