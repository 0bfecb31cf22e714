package cgroup

import "time"

// Controller is a kind of limit, by the kernel's name in version 2.
type Controller string

// The controllers that are used.
const (
	PIDs   Controller = "pids"
	Memory Controller = "memory"
	CPU    Controller = "cpu"
	IO     Controller = "io"
)

// Controllers are all of them.
func Controllers() []Controller { return []Controller{PIDs, Memory, CPU, IO} }

// Limits of a group. A zero field is no limit.
type Limits struct {
	PIDs int
	// Memory ends processes; above MemoryHigh they are slowed down.
	Memory, MemoryHigh int64
	// MilliCPUs is processor time: 1500 is that of one processor and a half.
	MilliCPUs int
	// IO is how many bytes a second are read from, and written to, the disk of each of Devices.
	IO int64
	// Devices are paths on those disks.
	Devices []string
}

// needs reports which controllers the limits need.
func (l Limits) needs() map[Controller]bool {
	return map[Controller]bool{PIDs: l.PIDs > 0, Memory: l.Memory > 0 || l.MemoryHigh > 0, CPU: l.MilliCPUs > 0, IO: l.IO > 0}
}

// Usage is what the processes of a group take.
type Usage struct {
	PIDs               int
	Memory, MemoryPeak int64
	CPU                time.Duration
	// OOMKills counts processes that the limit of memory ended, Refused what the limit of processes refused.
	OOMKills, Refused int64
}

// Support says what there is of a controller here.
type Support struct {
	Controller Controller
	// Version is 1 or 2; 0: it cannot be used.
	Version int
	// Parent is the directory in which groups are made.
	Parent string
	// Why says why it cannot be used.
	Why string
}
