package mix

import (
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

func pick[T any](m *mutator, of ...T) T { return of[m.r.IntN(len(of))] }

// operations are what commands do. Those of which much depends come often.
var operations = []operation{
	{"create", 3, on((*mutator).fresh, func(m *mutator, p string) error {
		flags := unix.O_CREAT | unix.O_WRONLY | pick(m, 0, unix.O_TRUNC, unix.O_EXCL, unix.O_APPEND)
		return with(p, flags, pick[uint32](m, 0o644, 0o600, 0o755, 0o444), func(fd int) error { return write(fd, m.data()) })
	})},
	{"overwrite", 1, on((*mutator).file, func(m *mutator, p string) error {
		return with(p, unix.O_RDWR, 0, func(fd int) error {
			_, err := unix.Pwrite(fd, m.data(), m.r.Int64N(50_000))
			return err
		})
	})},
	{"append", 1, on((*mutator).file, func(m *mutator, p string) error {
		return with(p, unix.O_WRONLY|unix.O_APPEND, 0, func(fd int) error { return write(fd, m.data()) })
	})},
	{"truncate", 1, on((*mutator).file, func(m *mutator, p string) error { return unix.Truncate(p, m.r.Int64N(60_000)) })},
	{"mkdir", 3, on((*mutator).fresh, func(m *mutator, p string) error { return unix.Mkdir(p, pick[uint32](m, 0o755, 0o700, 0o2775, 0o1777)) })},
	{"deep", 1, on((*mutator).dir, func(m *mutator, p string) error {
		for range 2 + m.r.IntN(6) {
			if p = path.Join(p, pick(m, names...)); len(p) > 1500 {
				return errNothing
			}
			if err := unix.Mkdir(p, 0o755); err != nil {
				return err
			}
		}
		return os.WriteFile(path.Join(p, "leaf"), []byte("leaf"), 0o644)
	})},
	{"unlink", 1, on((*mutator).any, func(_ *mutator, p string) error { return unix.Unlink(p) })},
	{"rmdir", 1, on((*mutator).any, func(_ *mutator, p string) error { return unix.Rmdir(p) })},
	{"remove all", 1, on((*mutator).any, func(_ *mutator, p string) error { return os.RemoveAll(p) })},
	{"rename", 3, onTwo((*mutator).any, (*mutator).fresh, rename2(0))},
	{"rename over", 1, onTwo((*mutator).any, (*mutator).any, rename2(0))},
	{"rename directory", 3, onTwo((*mutator).dir, (*mutator).fresh, rename2(0))},
	{"exchange", 1, onTwo((*mutator).any, (*mutator).any, rename2(unix.RENAME_EXCHANGE))},
	{"rename new", 1, onTwo((*mutator).any, (*mutator).fresh, rename2(unix.RENAME_NOREPLACE))},
	{"case", 1, on((*mutator).any, func(_ *mutator, p string) error {
		return unix.Rename(p, path.Join(path.Dir(p), swapCase(path.Base(p))))
	})},
	{"link", 3, onTwo((*mutator).any, (*mutator).fresh, func(_ *mutator, p, q string) error { return unix.Link(p, q) })},
	{"symlink", 1, on((*mutator).fresh, func(m *mutator, p string) error { return unix.Symlink(pick(m, "a", "b/c", "nl\n", "Foo"), p) })},
	{"fifo", 1, on((*mutator).fresh, func(_ *mutator, p string) error { return unix.Mkfifo(p, 0o640) })},
	{"socket", 1, on((*mutator).fresh, func(_ *mutator, p string) error { return listen(p) })},
	{"chmod", 1, on((*mutator).follows, func(m *mutator, p string) error {
		return unix.Chmod(p, pick[uint32](m, 0o600, 0o644, 0o755, 0o777, 0o711, 0o400))
	})},
	{"chown", 1, on((*mutator).any, func(m *mutator, p string) error { return unix.Lchown(p, pick(m, -1, 0, 1000), pick(m, -1, 0, 1000)) })},
	{"times", 1, on((*mutator).any, func(m *mutator, p string) error {
		ts := []unix.Timespec{unix.NsecToTimespec(m.r.Int64N(1e18)), unix.NsecToTimespec(m.r.Int64N(2e18))}
		return unix.UtimesNanoAt(unix.AT_FDCWD, p, ts, unix.AT_SYMLINK_NOFOLLOW)
	})},
	{"set attribute", 1, on((*mutator).any, func(m *mutator, p string) error {
		b := m.data()
		return unix.Lsetxattr(p, pick(m, attributes...), b[:min(len(b), 200)], pick(m, 0, 0, unix.XATTR_CREATE))
	})},
	{"remove attribute", 1, on((*mutator).any, func(m *mutator, p string) error { return unix.Lremovexattr(p, pick(m, attributes...)) })},
	{"set ACL", 1, on((*mutator).follows, func(m *mutator, p string) error {
		return unix.Lsetxattr(p, "system.posix_acl_"+pick(m, "access", "default"), m.acl(), 0)
	})},
	{"remove ACL", 1, on((*mutator).follows, func(m *mutator, p string) error {
		return unix.Lremovexattr(p, "system.posix_acl_"+pick(m, "access", "default"))
	})},
	{"flags", 1, on((*mutator).follows, func(m *mutator, p string) error { // refused inside
		return with(p, unix.O_RDONLY, 0, func(fd int) error {
			flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
			if err != nil {
				return err
			}
			return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags^pick(m, 0x8, 0x40, 0x80))
		})
	})},
	{"open", 3, on((*mutator).file, func(m *mutator, p string) error {
		fd, err := unix.Open(p, pick(m, unix.O_RDWR, unix.O_WRONLY, unix.O_RDWR|unix.O_APPEND)|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			m.keep(fd)
		}
		return err
	})},
	{"write to an open file", 3, func(m *mutator) error {
		return m.handle(func(fd int) error {
			_, err := unix.Pwrite(fd, m.data(), m.r.Int64N(30_000))
			return err
		})
	}},
	{"truncate an open file", 1, func(m *mutator) error {
		return m.handle(func(fd int) error { return unix.Ftruncate(fd, m.r.Int64N(30_000)) })
	}},
	{"chmod of an open file", 1, func(m *mutator) error {
		return m.handle(func(fd int) error { return unix.Fchmod(fd, pick[uint32](m, 0o600, 0o640, 0o755)) })
	}},
	{"close", 1, func(m *mutator) error {
		if len(m.open) == 0 {
			return errNothing
		}
		f := m.open[0]
		m.open = m.open[1:]
		return f.Close()
	}},
	{"link an open file", 1, func(m *mutator) error {
		return m.handle(func(fd int) error {
			return on((*mutator).fresh, func(_ *mutator, p string) error {
				return unix.Linkat(unix.AT_FDCWD, procFD(fd), unix.AT_FDCWD, p, unix.AT_SYMLINK_FOLLOW)
			})(m)
		})
	}},
	{"map", 3, on((*mutator).file, func(m *mutator, p string) error {
		return with(p, unix.O_RDWR, 0, func(fd int) error {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil || st.Size == 0 || st.Size > 1<<20 {
				return err
			}
			b, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err == nil {
				m.maps = append(m.maps, b)
				b[m.r.IntN(len(b))] = 'M'
			}
			return err
		})
	})},
	{"write to a map", 1, func(m *mutator) error {
		if len(m.maps) == 0 {
			return errNothing
		}
		b := pick(m, m.maps...)
		b[m.r.IntN(len(b))] = byte(m.r.IntN(256))
		return nil
	}},
	{"unmap", 1, func(m *mutator) error {
		if len(m.maps) == 0 {
			return errNothing
		}
		b := m.maps[0]
		m.maps = m.maps[1:]
		return unix.Munmap(b)
	}},
	{"unnamed file", 1, on((*mutator).dir, func(m *mutator, p string) error {
		fd, err := unix.Open(p, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return err
		}
		m.keep(fd)
		if err := write(fd, m.data()); err != nil || m.r.IntN(3) == 0 {
			return err
		}
		return on((*mutator).fresh, func(_ *mutator, p string) error {
			return unix.Linkat(unix.AT_FDCWD, procFD(fd), unix.AT_FDCWD, p, unix.AT_SYMLINK_FOLLOW)
		})(m)
	})},
	{"allocate", 1, on((*mutator).file, func(m *mutator, p string) error {
		mode := pick[uint32](m, 0, 1, 3, 0x10, 0x11, 8, 0x20)
		m.did = append(m.did, strconv.Itoa(int(mode)))
		return with(p, unix.O_RDWR, 0, func(fd int) error { return unix.Fallocate(fd, mode, m.r.Int64N(10)*4096, (1+m.r.Int64N(9))*4096) })
	})},
	{"copy a range", 1, onTwo((*mutator).file, (*mutator).file, func(m *mutator, p, q string) error {
		return with(p, unix.O_RDONLY, 0, func(from int) error {
			return with(q, unix.O_RDWR, 0, func(to int) error {
				off, at := m.r.Int64N(5000), m.r.Int64N(5000)
				_, err := unix.CopyFileRange(from, &off, to, &at, 1+m.r.IntN(50_000), 0)
				return err
			})
		})
	})},
	{"send a file", 1, onTwo((*mutator).file, (*mutator).file, func(_ *mutator, p, q string) error {
		return with(p, unix.O_RDONLY, 0, func(from int) error {
			return with(q, unix.O_WRONLY, 0, func(to int) error {
				_, err := unix.Sendfile(to, from, nil, 5000)
				return err
			})
		})
	})},
	{"clone", 1, onTwo((*mutator).file, (*mutator).fresh, func(_ *mutator, p, q string) error {
		return with(p, unix.O_RDONLY, 0, func(from int) error {
			return with(q, unix.O_RDWR|unix.O_CREAT, 0o644, func(to int) error { return unix.IoctlFileClone(to, from) })
		})
	})},
	{"sparse", 1, on((*mutator).fresh, func(m *mutator, p string) error {
		return with(p, unix.O_CREAT|unix.O_RDWR, 0o644, func(fd int) error {
			if err := unix.Ftruncate(fd, 1e6+m.r.Int64N(9e7)); err != nil {
				return err
			}
			_, err := unix.Pwrite(fd, []byte("sp"), m.r.Int64N(1e6))
			return err
		})
	})},
	{"another kind", 1, on((*mutator).any, func(_ *mutator, p string) error {
		st, err := os.Lstat(p)
		if err != nil {
			return err
		}
		if err := os.RemoveAll(p); err != nil {
			return err
		}
		if st.IsDir() {
			return os.WriteFile(p, []byte("was a directory"), 0o644)
		}
		if err := unix.Mkdir(p, 0o755); err != nil {
			return err
		}
		return os.WriteFile(path.Join(p, "in"), []byte("in"), 0o644)
	})},
	{"gather", 2, onTwo((*mutator).fresh, (*mutator).any, func(m *mutator, p, q string) error { // into a new directory, which then goes into another new one
		in := path.Join(p, "in")
		for _, err := range []error{unix.Mkdir(p, 0o755), unix.Mkdir(in, 0o755), unix.Rename(q, path.Join(in, path.Base(q)))} {
			if err != nil {
				return err
			}
		}
		return on((*mutator).fresh, func(_ *mutator, to string) error {
			if err := unix.Mkdir(to, 0o755); err != nil {
				return err
			}
			return unix.Rename(in, path.Join(to, "gathered"))
		})(m)
	})},
	{"save", 1, on((*mutator).file, func(m *mutator, p string) error { // as editors do it
		t := path.Join(path.Dir(p), "tmp~")
		if err := with(t, unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, 0o644, func(fd int) error { return write(fd, m.data()) }); err != nil {
			return err
		}
		return unix.Rename(t, p)
	})},
}
