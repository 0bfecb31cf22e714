package mediate

import "golang.org/x/sys/unix"

// addOld adds the calls without a directory's descriptor, which newer architectures do
// not have.
func addOld(t *[maxSyscall]handler) {
	t[unix.SYS_OPEN] = func(c *call) answer { return c.open(atCwd, 0, c.flag(1), c.word(2)) }
	t[unix.SYS_CREAT] = func(c *call) answer {
		return c.open(atCwd, 0, unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, c.word(1))
	}
	t[unix.SYS_MKDIR] = func(c *call) answer { return c.mkdir(atCwd, 0, c.word(1)) }
	t[unix.SYS_MKNOD] = func(c *call) answer { return c.mknod(atCwd, 0, c.word(1)) }
	t[unix.SYS_SYMLINK] = func(c *call) answer { return c.symlink(0, atCwd, 1) }
	t[unix.SYS_LINK] = func(c *call) answer { return c.link(atCwd, 0, atCwd, 1, 0) }
	t[unix.SYS_UNLINK] = func(c *call) answer { return c.unlink(atCwd, 0) }
	t[unix.SYS_RMDIR] = func(c *call) answer { return c.rmdir(atCwd, 0) }
	t[unix.SYS_RENAME] = func(c *call) answer { return c.rename(atCwd, 0, atCwd, 1, 0) }
	t[unix.SYS_CHMOD] = func(c *call) answer { return c.chmod(atCwd, 0, follow, c.word(1)) }
	t[unix.SYS_CHOWN] = func(c *call) answer { return c.chown(atCwd, 0, follow, c.word(1), c.word(2)) }
	t[unix.SYS_LCHOWN] = func(c *call) answer { return c.chown(atCwd, 0, 0, c.word(1), c.word(2)) }
	t[unix.SYS_UTIME] = (*call).utime
	t[unix.SYS_UTIMES] = func(c *call) answer { return c.utimes(atCwd, 0, 1) }
	t[unix.SYS_FUTIMESAT] = func(c *call) answer { return c.utimes(c.fd(0), 1, 2) }
	t[unix.SYS_ACCESS] = func(c *call) answer { return c.access(atCwd, 0, c.word(1), 0) }
}
