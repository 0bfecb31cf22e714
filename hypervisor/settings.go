package hypervisor

import "time"

// Jail is what commands see of the host and may do there: what [jail] of the configuration and the policy say. Whoever passes a configuration on copies
// it as a whole, so a field that is added here reaches the runtime.
type Jail struct {
	// Hide are host paths that must not be visible inside, beyond the built-in
	// list of secrets; Show exempts paths from that list.
	Hide, Show []string
	// NoExec are host paths from which nothing is executed.
	NoExec []string
	// Gates are directories of the host, absolute and clean, whose names somebody has to allow before commands see them. With Dynamic,
	// all of the host that programs do not need is behind such gates, too.
	Gates   []string
	Dynamic bool
	// Debug allows ptrace inside.
	Debug bool
	// Programs32bit lets programs of 32 bits (i386) run in a jail without the mediated bridge, on a processor that has them.
	Programs32bit bool
	// Containers allows commands to make namespaces of their own, which engines for containers need.
	Containers bool
	// Devices are devices of the host that commands may use: paths below /dev, or names there. One by which they would reach past the guest has to be
	// there twice.
	Devices []string
}

// Places are directories of the host, beside the working folders, that programs in a jail
// can write to: what [places] of the configuration says. The zero value is none.
type Places struct {
	// Store is where overlays are kept; it is made with mode 0700. Empty: there are none.
	Store string
	// Caches are the caches of compilers and package managers, and Home is the
	// user's home directory. What is written to a cache is kept for the next session, and what is
	// written to the home directory is not. The host's own are never written.
	Caches, Home bool
	// Overlay are other directories that are treated as caches are.
	Overlay []string
	// Writable are files and directories of the host that are written as they are.
	Writable []string
}

// Limits are what everything inside a jail may take together: what [limits] of the configuration says. A field that is zero, or less, is no limit.
type Limits struct {
	// PIDs are processes and threads.
	PIDs int
	// Memory is what processes may use; one of them is ended when they use more. Above MemoryHigh they are
	// slowed down.
	Memory, MemoryHigh int64
	// MilliCPUs is processor time: 1500 is that of one processor and a half.
	MilliCPUs int
	// IO is how many bytes a second are read from, and written to, the disks of the working
	// folders.
	IO int64
	// FileBytes is how large a file may become that is written inside.
	FileBytes int64
	// TmpBytes is what each of the places in memory may hold: /tmp, /var/tmp, /run, /dev/shm and what is written
	// to the home directory.
	TmpBytes int64
}

// VM is a virtual machine: what [vm] of the configuration says, and the runtime takes as it is said.
type VM struct {
	// Program is QEMU's, by path; empty: looked for in PATH.
	Program string
	// Accel is one of [AccelerationWords]; empty is [Accelerate].
	Accel string
	// Seatbelt has QEMU run behind a profile of macOS' Seatbelt. On other systems that is an error.
	Seatbelt bool
	// MemoryBytes of the guest, rounded down to MiB ([MachineBytes] if 0).
	MemoryBytes int64
	// CPUs of the guest; 0: all of the host's up to 4, one when emulating.
	CPUs int
	// BootTimeout bounds the time to the guest's hello ([MachineBoot] if 0).
	BootTimeout time.Duration
}
