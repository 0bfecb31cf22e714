// Package guest runs the battery of tests/suite/filesystems on file systems that few kernels have, 9p, NFS and an ext4 to which case does not count: in an emulated
// machine with Debian's kernel. Its root is this machine's by 9p, read-only, so that all programs are there. 9p is served by
// QEMU from a directory of this machine, and NFS by the guest's own kernel from an ext4.
package guest
