package mediate

import "golang.org/x/sys/unix"

// nativeArch is the architecture whose calls the handlers know.
const nativeArch = unix.AUDIT_ARCH_X86_64
