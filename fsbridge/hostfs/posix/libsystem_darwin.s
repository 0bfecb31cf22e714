#include "textflag.h"

// The functions of libSystem for which golang.org/x/sys/unix has no name, in its own way.

TEXT futimens_trampoline<>(SB),NOSPLIT,$0-0
	JMP	libc_futimens(SB)
GLOBL	·futimensAddress(SB), RODATA, $8
DATA	·futimensAddress(SB)/8, $futimens_trampoline<>(SB)

TEXT getattrlist_trampoline<>(SB),NOSPLIT,$0-0
	JMP	libc_getattrlist(SB)
GLOBL	·getattrlistAddress(SB), RODATA, $8
DATA	·getattrlistAddress(SB)/8, $getattrlist_trampoline<>(SB)
