package files

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

// legacyCalls are those that newer processors do not have: C libraries still make them.
func legacyCalls(c *record.Seen) {
	page := c.Pages() // which Go neither moves nor frees
	used := 64
	str := func(s string) uintptr {
		at := used
		used += copy(page[at:], s+"\x00")
		return uintptr(unsafe.Pointer(&page[at]))
	}
	call := func(label string, nr, a, b, d uintptr) {
		_, _, e := unix.Syscall(nr, a, b, d)
		c.Err(label, record.NoError(e))
	}
	call("creat", unix.SYS_CREAT, str("f"), 0o666, 0)
	call("open", unix.SYS_OPEN, str("f"), unix.O_WRONLY|unix.O_TRUNC, 0)
	call("open-create", unix.SYS_OPEN, str("g"), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o640)
	call("mkdir", unix.SYS_MKDIR, str("d"), 0o777, 0)
	call("mknod", unix.SYS_MKNOD, str("p"), unix.S_IFIFO|0o600, 0)
	call("link", unix.SYS_LINK, str("f"), str("l"), 0)
	call("symlink", unix.SYS_SYMLINK, str("f"), str("s"), 0)
	call("rename", unix.SYS_RENAME, str("g"), str("h"), 0)
	call("chmod", unix.SYS_CHMOD, str("f"), 0o600, 0)
	call("chown", unix.SYS_CHOWN, str("f"), ^uintptr(0), ^uintptr(0))
	call("lchown", unix.SYS_LCHOWN, str("s"), ^uintptr(0), ^uintptr(0))
	call("truncate", unix.SYS_TRUNCATE, str("f"), 7, 0)
	call("access", unix.SYS_ACCESS, str("f"), unix.W_OK, 0)
	utime := (*[2]int64)(unsafe.Pointer(&page[0]))
	*utime = [2]int64{1_000_000_000, 1_100_000_000}
	call("utime", unix.SYS_UTIME, str("f"), uintptr(unsafe.Pointer(utime)), 0)
	c.Times("utime-times", "f")
	utimes := (*[2]unix.Timeval)(unsafe.Pointer(&page[0]))
	*utimes = [2]unix.Timeval{{Sec: 1_200_000_000, Usec: 7}, {Sec: 1_300_000_000, Usec: 9}}
	call("utimes", unix.SYS_UTIMES, str("f"), uintptr(unsafe.Pointer(utimes)), 0)
	c.Times("utimes-times", "f")
	utimes[0].Sec++
	call("futimesat", unix.SYS_FUTIMESAT, record.FDCwd(), str("f"), uintptr(unsafe.Pointer(utimes)))
	c.Times("futimesat-times", "f")
	call("utime-now", unix.SYS_UTIME, str("f"), 0, 0)
	utimes[1].Usec = 1_000_000
	call("utimes-bad", unix.SYS_UTIMES, str("f"), uintptr(unsafe.Pointer(utimes)), 0)
	call("unlink", unix.SYS_UNLINK, str("l"), 0, 0)
	call("rmdir", unix.SYS_RMDIR, str("d"), 0, 0)
	call("renameat", unix.SYS_RENAMEAT, record.FDCwd(), str("h"), record.FDCwd())
	c.Stat("stat", "f")
	c.List("list", ".")
}
