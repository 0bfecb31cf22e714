package qemu

// accelAdvice says how to get it.
const accelAdvice = "; switch on the Windows feature 'Windows Hypervisor Platform' (as administrator: dism /online /enable-feature /featurename:HypervisorPlatform), and virtualisation in the firmware"
