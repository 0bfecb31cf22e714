// Package qemu is the runtime of the strongest isolation: a Linux guest in a
// virtual machine (QEMU). The working folders are virtio-fs devices that our own
// bridge serves; nothing else of the host is there.
//
// # How it is made
//
// QEMU is a child of the supervisor. The kernel and the initramfs, which
// [Options.Image] opens, the console, the control channel, the monitor and each
// folder's vhost-user connection are descriptors that it inherits: there are no
// sockets with names that somebody else could connect to or that could be left
// behind. (The monitor's listens in a private directory until we have
// connected, a moment after the start.) The guest's init (guest/inner) is sent a
// [control.MachinePlan], mounts the folders and says hello; from then on it
// takes commands.
//
// The machine is accelerated by KVM where that really works, which is tried by
// starting one; else it is emulated, on one processor, which is faster than
// several.
//
// # Disks
//
// A root file system ([Image].RootFS) and a persistent disk ([Disk]) are
// virtio-blk devices; QEMU gets their descriptors, the first of a file that is open
// for reading only. The guest's init lays the second, or memory, over the first by
// an overlay. What is on the second was written by a guest, so nobody here reads
// it. Its lock is that of the open file, which QEMU alone has where it inherits it: it lasts as long as
// QEMU. Elsewhere we have it until QEMU has ended.
//
// # What ends it
//
// The kernel kills QEMU when the supervisor dies, however that dies. When QEMU
// ends, when the guest's kernel panics (it is told to reboot then, which QEMU
// takes as the end), when the control channel breaks or the guest floods it with
// nonsense, the guest is over, and [hypervisor.Guest.Err] says why, with the end
// of the console.
//
// # Trust
//
// The guest is hostile, root and kernel of it included. What it can reach are
// the emulated devices, the control channel and the bridges, and each checks what comes.
// QEMU is the first thing that it would take over, so QEMU has few rights: it runs in
// its own seccomp sandbox (no new programs, no change of user), and as a user
// that owns nothing ([EmulatorUID]) when the supervisor is root.
//
// There is no network device, unless [hypervisor.Config] has a policy for one:
// then its cable ends in a user-mode stack in this process (hypervisor/network),
// and the guest is told in its plan how to set up its end.
//
// # Pauses
//
// A paused guest (QMP stop) is one that somebody decides about: it may stand still for
// minutes. No limit of ours counts meanwhile: messages to it wait, and so do who would
// have it write back or run a command. What it must drop from its caches is noted, and
// dropped as soon as it goes on. It is told the time then. A QEMU
// that does not answer its monitor is ended, since nobody knows whether its guest runs.
//
// # Locks
//
// guest.switching is held by who pauses or resumes; guest.mu guards a few fields
// and is not held while anything waits.
package qemu
