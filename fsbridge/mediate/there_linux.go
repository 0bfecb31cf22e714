package mediate

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// isThere answers kill(2) with signal 0, which asks whether there is a process. The kernel answers it, but for a number that nobody inside has, if
// [Options].Outside knows it: then there is one. Nobody is sent anything by us, and the arguments are no memory that could change.
func (c *call) isThere() answer {
	pid := int(int32(c.word(0)))
	if c.word(1) != 0 || pid <= 1 || c.s.outside == nil {
		return native
	}
	known := make(chan bool, 1)
	go func() { known <- c.s.outside(pid) }() // on a thread of the program's own: this one has the workload's rights
	if !<-known {
		return native
	}
	var st unix.Stat_t
	if unix.Fstatat(int(c.s.guest.Root.Fd()), "proc/"+strconv.Itoa(pid), &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return native // somebody inside has it, too; or /proc is the host's
	}
	return answer{}
}
