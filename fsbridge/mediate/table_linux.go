package mediate

import (
	"golang.org/x/sys/unix"
)

// What package unix does not have yet.
const (
	sysSetxattrat    = 463
	sysRemovexattrat = 466

	maxSyscall = 512
)

type handler func(c *call) answer

// handlers are the calls that we answer, by their numbers; see the table in the
// package's documentation.
var handlers = table()

func table() *[maxSyscall]handler {
	t := [maxSyscall]handler{
		unix.SYS_OPENAT:    func(c *call) answer { return c.open(c.fd(0), 1, c.flag(2), c.word(3)) },
		unix.SYS_TRUNCATE:  (*call).truncate,
		unix.SYS_MKDIRAT:   func(c *call) answer { return c.mkdir(c.fd(0), 1, c.word(2)) },
		unix.SYS_MKNODAT:   func(c *call) answer { return c.mknod(c.fd(0), 1, c.word(2)) },
		unix.SYS_SYMLINKAT: func(c *call) answer { return c.symlink(0, c.fd(1), 2) },
		unix.SYS_LINKAT:    func(c *call) answer { return c.link(c.fd(0), 1, c.fd(2), 3, c.flag(4)) },
		unix.SYS_UNLINKAT: func(c *call) answer {
			switch c.flag(2) {
			case 0:
				return c.unlink(c.fd(0), 1)
			case unix.AT_REMOVEDIR:
				return c.rmdir(c.fd(0), 1)
			}
			return native
		},
		unix.SYS_RENAMEAT:  func(c *call) answer { return c.rename(c.fd(0), 1, c.fd(2), 3, 0) },
		unix.SYS_RENAMEAT2: func(c *call) answer { return c.rename(c.fd(0), 1, c.fd(2), 3, c.word(4)) },

		unix.SYS_FCHMOD:   func(c *call) answer { return c.chmod(c.fd(0), -1, 0, c.word(1)) },
		unix.SYS_FCHMODAT: func(c *call) answer { return c.chmod(c.fd(0), 1, follow, c.word(2)) },
		unix.SYS_FCHMODAT2: func(c *call) answer {
			how, ok := atFlags(c.flag(3), unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
			if !ok {
				return native
			}
			return c.chmod(c.fd(0), 1, how, c.word(2))
		},
		unix.SYS_FCHOWN: func(c *call) answer { return c.chown(c.fd(0), -1, 0, c.word(1), c.word(2)) },
		unix.SYS_FCHOWNAT: func(c *call) answer {
			how, ok := atFlags(c.flag(4), unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
			if !ok {
				return native
			}
			return c.chown(c.fd(0), 1, how, c.word(2), c.word(3))
		},
		unix.SYS_UTIMENSAT:  (*call).utimensat,
		unix.SYS_FACCESSAT:  func(c *call) answer { return c.access(c.fd(0), 1, c.word(2), 0) },
		unix.SYS_FACCESSAT2: func(c *call) answer { return c.access(c.fd(0), 1, c.word(2), c.flag(3)) },

		unix.SYS_SETXATTR:     func(c *call) answer { return c.setXattr(atCwd, 0, follow, 1) },
		unix.SYS_LSETXATTR:    func(c *call) answer { return c.setXattr(atCwd, 0, 0, 1) },
		unix.SYS_FSETXATTR:    func(c *call) answer { return c.setXattr(c.fd(0), -1, 0, 1) },
		sysSetxattrat:         (*call).setXattrAt,
		unix.SYS_REMOVEXATTR:  func(c *call) answer { return c.removeXattr(atCwd, 0, follow, 1) },
		unix.SYS_LREMOVEXATTR: func(c *call) answer { return c.removeXattr(atCwd, 0, 0, 1) },
		unix.SYS_FREMOVEXATTR: func(c *call) answer { return c.removeXattr(c.fd(0), -1, 0, 1) },
		sysRemovexattrat: func(c *call) answer {
			how, ok := atFlags(c.flag(2), unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
			if !ok {
				return native
			}
			return c.removeXattr(c.fd(0), 1, how, 3)
		},

		unix.SYS_STATFS:  func(c *call) answer { return c.statfs(atCwd, 0) },
		unix.SYS_FSTATFS: func(c *call) answer { return c.statfs(c.fd(0), -1) },

		unix.SYS_BIND:  (*call).bind,
		unix.SYS_UMASK: (*call).setsUmask,

		unix.SYS_CONNECT:  (*call).connect,
		unix.SYS_SENDTO:   (*call).sendTo,
		unix.SYS_SENDMSG:  (*call).sendMessage,
		unix.SYS_SENDMMSG: (*call).sendMessages,

		unix.SYS_KILL: (*call).isThere,

		unix.SYS_PTRACE:  (*call).refuseTracing,
		unix.SYS_SOCKET:  (*call).socketCall,
		unix.SYS_SECCOMP: (*call).refuseListener,
	}
	addOld(&t)
	return &t
}

// refuseTracing refuses ptrace(2), which comes here only where it is not allowed, so that it can be told.
func (c *call) refuseTracing() answer {
	c.s.figures.Traced()
	return failed(unix.EPERM)
}

// socketCall answers socket(2), which comes here where there is no network, and where we make sockets.
func (c *call) socketCall() answer {
	if c.s.guest.Network != nil {
		return c.makeSocket()
	}
	return c.refuseSocket()
}

// refuseSocket refuses socket(2), which comes here only for a network that there is not: that can be told, too.
func (c *call) refuseSocket() answer {
	c.s.figures.Unwired()
	return failed(unix.EAFNOSUPPORT)
}

// refuseListener refuses seccomp(2) for a filter with a listener, as the kernel would: it allows one, ours. That can be told, too.
func (c *call) refuseListener() answer {
	c.s.figures.Listening()
	return failed(unix.EBUSY)
}

// refuseForeign refuses a call of a program for another processor, of 32 bits: its numbers mean other calls. That can be told, too.
func (c *call) refuseForeign() answer {
	c.s.figures.Foreign()
	return failed(unix.ENOSYS)
}

// setsUmask lets umask(2) be performed, and forgets what umasks were.
func (c *call) setsUmask() answer {
	if c.th == nil {
		c.th, _ = c.s.threads.Get(c.n.PID)
	}
	if c.th != nil {
		c.s.threads.SettingUmask(c.th)
	}
	return native
}
