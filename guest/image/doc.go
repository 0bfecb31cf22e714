// Package image makes what a virtual machine boots: a kernel and an initramfs,
// out of a distribution's packages and our own program for guests. It needs no
// container engine and no root, and the same inputs give the same bytes.
//
// # What is in it
//
//	kernel        a vmlinux, taken out of the package's bzImage: QEMU starts it
//	              by PVH in a third of the time. Where that cannot be done, the
//	              bzImage itself.
//	base.cpio     busybox and its applets, the kernel modules that a guest needs
//	              in the order of their dependencies, /etc with an ordinary user
//	manifest.json versions, sources and checksums of all of these
//
// All of it lies in one directory, which appears with a rename when it is
// complete. [Source.Open] checks it at every start and appends the guest program,
// which comes from the caller's own binary, so that a new version of it needs no
// new download.
//
// [Image.Pack] writes the three files as an archive, and [Fetch] installs one on another
// machine, which needs no apt.
//
// [BuildRootFS] makes a root file system beside it: a Debian, installed by
// mmdebstrap into a directory that is thrown away again, packed into a squashfs by
// sqfstar. The archive goes from one to the other through us, who read from it which
// packages are in it. Of two builds with the same packages the bytes are the same if
// [RootFSOptions.Epoch] is: it is the newest time that a file can have.
//
// # Trust
//
// Packages come by apt, which checks their signatures. A package is parsed
// defensively nevertheless: archive members have limits, only those that are
// asked for are read, nothing is unpacked to the disk and no path out of an
// archive is ever used as a path on the host.
//
// An image that comes as an archive is trusted because of its checksum alone, which
// the user names; nothing is read out of it before. What it says of itself has limits
// nevertheless. The guest that it makes is hostile to us as any other.
package image
