// Package vm tests virtual machines with real ones: QEMU without acceleration,
// Debian's kernel, our own program inside or one that is hostile. A boot takes
// about three seconds.
package vm
