// Package vm tests the bridge to virtual machines with a real one: QEMU without
// acceleration, Debian's kernel and busybox. A boot takes about three seconds.
package vm
