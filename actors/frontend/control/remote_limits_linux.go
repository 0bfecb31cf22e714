package control

import (
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
)

// limited are the limits that a command of another process has from that process.
var limited = [...]int{
	unix.RLIMIT_CPU, unix.RLIMIT_FSIZE, unix.RLIMIT_DATA, unix.RLIMIT_STACK, unix.RLIMIT_CORE, unix.RLIMIT_RSS, unix.RLIMIT_NPROC, unix.RLIMIT_NOFILE,
	unix.RLIMIT_MEMLOCK, unix.RLIMIT_AS, unix.RLIMIT_LOCKS, unix.RLIMIT_SIGPENDING, unix.RLIMIT_MSGQUEUE, unix.RLIMIT_NICE, unix.RLIMIT_RTPRIO, unix.RLIMIT_RTTIME,
}

// limitsOf returns what a process, which asks for a command, may use, where that is not what this process may; nil if there is no difference, or it
// cannot be told. A command that is started by itself would inherit it. The kernel is asked, and not the process.
func limitsOf(pid int) *hypervisor.ProcessLimits {
	if pid <= 0 {
		return nil
	}
	var l hypervisor.ProcessLimits
	for _, resource := range limited {
		var theirs, own unix.Rlimit
		if unix.Prlimit(pid, resource, nil, &theirs) != nil || unix.Prlimit(0, resource, nil, &own) != nil {
			continue
		}
		if theirs.Cur != own.Cur || theirs.Max < own.Max { // nobody may raise the hard one
			l.List = append(l.List, hypervisor.ProcessLimit{Resource: resource, Soft: theirs.Cur, Hard: theirs.Max})
		}
	}
	const nicest = 20 // what the kernel returns is 20 less how nice a process is
	theirs, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	own, err2 := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err == nil && err2 == nil && theirs < own && theirs < nicest {
		l.Nice = nicest - theirs
	}
	if len(l.List) == 0 && l.Nice == 0 {
		return nil
	}
	return &l
}
