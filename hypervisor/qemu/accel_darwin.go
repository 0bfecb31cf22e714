package qemu

// accelAdvice says how to get it.
const accelAdvice = "; sysctl kern.hv_support tells whether this Mac has it, and QEMU must be signed with com.apple.security.hypervisor, as Homebrew's is"
