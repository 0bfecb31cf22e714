#include "textflag.h"

TEXT sandbox_init_trampoline<>(SB),NOSPLIT,$0-0
	JMP	libc_sandbox_init(SB)
GLOBL	·sandboxInitAddress(SB), RODATA, $8
DATA	·sandboxInitAddress(SB)/8, $sandbox_init_trampoline<>(SB)
