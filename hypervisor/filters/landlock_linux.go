package filters

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights.
const (
	LandlockRead   = unix.LANDLOCK_ACCESS_FS_READ_FILE
	LandlockWrite  = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | LandlockCut
	LandlockCut    = unix.LANDLOCK_ACCESS_FS_TRUNCATE  // also what is not open for writing
	LandlockDevice = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV // requests to devices
	// LandlockConnect is to reach a socket with a path that somebody outside has made. Sockets of those who are restricted by the set can be reached without.
	LandlockConnect = unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	// LandlockNames are to make, remove, rename and link what a directory holds.
	LandlockNames = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_REFER | LandlockNodes
	// LandlockNodes are to make devices.
	LandlockNodes = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK

	ofFiles = LandlockRead | LandlockWrite | LandlockDevice | LandlockConnect // what a rule for anything but a directory can allow
)

// Versions of Landlock, by what they are the first to know.
const (
	LandlockRenames  = 2 // Linux 5.19: renames and links between directories, which a set of version 1 refuses
	LandlockTruncate = 3 // Linux 6.2
	LandlockScopes   = 6 // Linux 6.12: signals and abstract sockets
	LandlockSockets  = 9 // Linux 7.1: sockets with a path
)

// LandlockVersion returns the version of Landlock that this kernel has. 0 is none; why says the reason.
func LandlockVersion() (version int, why error) {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, fmt.Errorf("this kernel has no Landlock (CONFIG_SECURITY_LANDLOCK, lsm=landlock,...), or the container forbids it: %w", errno)
	}
	return int(v), nil
}

// LandlockKnown returns which of these rights a version knows.
func LandlockKnown(version int, rights uint64) uint64 {
	if version < LandlockRenames {
		rights &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version < LandlockTruncate {
		rights &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version < 5 {
		rights &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version < LandlockSockets {
		rights &^= LandlockConnect
	}
	return rights
}

// LandlockSettings of a [Ruleset].
type LandlockSettings struct {
	Files  uint64 // the rights that it decides about
	TCP    bool   // nobody may listen or connect by TCP
	Remote bool   // nobody may connect by TCP
	Inside bool   // signals and connections to abstract sockets reach only who is restricted by it
}

// Ruleset is a set of rules. It is not safe for concurrent use.
type Ruleset struct {
	f     *os.File
	files uint64
}

// NewRuleset makes an empty set.
func NewRuleset(s LandlockSettings) (*Ruleset, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: s.Files}
	if s.TCP {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if s.Remote {
		attr.Handled_access_net |= unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if s.Inside {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	// A kernel that does not know the last members takes them if they are zero.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("landlock_create_ruleset", errno)
	}
	unix.CloseOnExec(int(fd))
	return &Ruleset{f: os.NewFile(fd, "landlock"), files: s.Files}, nil
}

// File is the set's descriptor. It is the set's.
func (r *Ruleset) File() *os.File { return r.f }

// Close closes the set. Who is restricted by it stays so.
func (r *Ruleset) Close() error { return r.f.Close() }

// Allow lets path, and what lies below it, be used, and tells whether there is a rule for it now:
// what is gone is left out, and so are sockets, and symlinks, because what they lead to counts.
func (r *Ruleset) Allow(path string, rights uint64) (ruled bool, err error) {
	return r.allow(path, rights, func(kind uint32) bool { return kind != unix.S_IFLNK && kind != unix.S_IFSOCK })
}

// AllowDevice is Allow for a character device, or a directory with what lies below it. What is something else is left out.
func (r *Ruleset) AllowDevice(path string, rights uint64) (ruled bool, err error) {
	return r.allow(path, rights, func(kind uint32) bool { return kind == unix.S_IFCHR || kind == unix.S_IFDIR })
}

// AllowConnect lets a socket be connected to, or those in a directory. What is something else is left out.
func (r *Ruleset) AllowConnect(path string) (ruled bool, err error) {
	return r.allow(path, LandlockConnect, func(kind uint32) bool { return kind == unix.S_IFSOCK || kind == unix.S_IFDIR })
}

func (r *Ruleset) allow(path string, rights uint64, fits func(kind uint32) bool) (ruled bool, err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false, nil // nobody reaches it then
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || !fits(st.Mode&unix.S_IFMT) {
		return false, nil
	}
	if rights = LandlockAt(st.Mode&unix.S_IFMT == unix.S_IFDIR, rights&r.files); rights == 0 {
		return false, nil
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, r.f.Fd(), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return false, fmt.Errorf("a Landlock rule for %s: %w", path, errno)
	}
	return true, nil
}

// LandlockAt returns which rights a rule for a directory, or for something else, can allow.
func LandlockAt(dir bool, rights uint64) uint64 {
	if !dir {
		rights &= ofFiles
	}
	return rights
}

// LandlockRule is the structure that landlock_add_rule takes for what is open as fd.
func LandlockRule(fd uintptr, rights uint64) []byte {
	return binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint64(nil, rights), uint32(fd))
}
