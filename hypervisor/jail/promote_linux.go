package jail

import (
	"errors"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/script"
)

// errOtherPromoted says that a name in the jail's view is not what was looked at: what is mounted there on the host was
// mounted later.
var errOtherPromoted = errors.New("promote: the jail has another directory there")

// promotedJail is a jail whose gates can have mounts. Its methods are safe for concurrent use.
type promotedJail struct {
	mu     sync.Mutex // held while a mount is made
	pidfd  *os.File
	bases  []*os.File
	closed bool
}

// newPromotion makes it, of a jail's PID 1, which the caller keeps from being reaped meanwhile. Close it when that has ended.
func newPromotion(pid int) (*promotedJail, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return &promotedJail{pidfd: os.NewFile(uintptr(fd), "PID 1")}, nil
}

// Close makes all that follow fail. Nil has nothing to close.
func (j *promotedJail) Close() error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	errs := []error{j.pidfd.Close()}
	for _, b := range j.bases {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// promoteGate is one gate of a jail.
type promoteGate struct {
	j    *promotedJail
	path string
	base *os.File
}

// promoteGate takes over what the gate covers: the directory of that path, O_PATH, in the jail's mount namespace.
func (j *promotedJail) Gate(path string, base *os.File) *promoteGate {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		_ = base.Close()
	} else {
		j.bases = append(j.bases, base)
	}
	return &promoteGate{j, path, base}
}

const (
	within        = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	place         = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	promoteSealed = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
)

// Mount mounts a directory below the gate's over its name in the gate. looked is that directory, which the gate has opened. The path is
// absolute and clean.
func (g *promoteGate) Mount(path string, looked int) error {
	name, ok := strings.CutPrefix(path, strings.TrimSuffix(g.path, "/")+"/")
	if !ok {
		return &os.PathError{Op: "promote", Path: path, Err: os.ErrInvalid}
	}
	g.j.mu.Lock()
	defer g.j.mu.Unlock()
	if g.j.closed {
		return os.ErrClosed
	}
	fd, err := unix.Openat2(int(g.base.Fd()), name, &unix.OpenHow{Flags: place, Resolve: within})
	if err != nil {
		return &os.PathError{Op: "promote", Path: path, Err: err}
	}
	source := os.NewFile(uintptr(fd), path)
	defer source.Close()
	var a, b unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &a), unix.Fstat(looked, &b)); err != nil {
		return &os.PathError{Op: "promote", Path: path, Err: err}
	}
	if a.Dev != b.Dev || a.Ino != b.Ino {
		return errOtherPromoted
	}
	return script.Run(0, []*os.File{g.j.pidfd, source}, func(w *script.Writer) { g.write(w, name) })
}

// write writes what the process does. It finds PID 1 and the directory as its descriptors Program and Rules.
func (g *promoteGate) write(w *script.Writer, name string) {
	w.Call("entering the jail", unix.SYS_SETNS, script.Program, unix.CLONE_NEWUSER|unix.CLONE_NEWNS)
	tree := w.Open("a mount of the directory", unix.SYS_OPEN_TREE, script.Rules, w.Text(""), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	attr := w.Words(promoteSealed, 0, unix.MS_PRIVATE, 0) // struct mount_attr
	w.Call("making it read-only", unix.SYS_MOUNT_SETATTR, tree, w.Text(""), unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr, unix.MOUNT_ATTR_SIZE_VER0)
	gate := w.Open("the gate", unix.SYS_OPENAT, script.Cwd, w.Text(g.path), place)
	how := w.Words(place, 0, within|unix.RESOLVE_NO_XDEV) // struct open_how; it fails where something is mounted
	at := w.Open("its name in the gate", unix.SYS_OPENAT2, gate, w.Text(name), how, unix.SizeofOpenHow)
	w.Call("mounting it", unix.SYS_MOVE_MOUNT, tree, w.Text(""), at, w.Text(""), unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}
