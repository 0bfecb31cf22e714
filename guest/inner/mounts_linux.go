//go:build amd64 || arm64

package inner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// devices of the minimal /dev.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// hiddenDir holds, while the view is made, what is bound over hidden files.
const hiddenDir = "/dev/.sandbox"

const sealed = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// makeView turns this namespace's copy of the host's tree into the jail's view,
// in place: everything that exists becomes read-only, then the plan's mounts
// cover what must look different. Whoever lives in a child namespace cannot
// take a cover off.
func (b *builder) makeView() error {
	// First of all: what we do must not reach the host.
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	if err := b.takeSources(); err != nil {
		return err
	}
	ownProc, err := b.mountProc()
	if err != nil {
		return err
	}
	err = unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: sealed})
	if err != nil {
		return fmt.Errorf("making the host's tree read-only (needs Linux 5.12): %w", err)
	}
	if ownProc { // programs write to /proc/self
		if err := unix.MountSetattr(unix.AT_FDCWD, "/proc", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("/proc: %w", err)
		}
	}
	for i := range b.plan.Mounts {
		m := &b.plan.Mounts[i]
		if err := b.mount(m); err != nil {
			return fmt.Errorf("%s %s: %w", m.Op, m.Path, err)
		}
	}
	if err := os.RemoveAll(hiddenDir); err != nil {
		return err
	}
	return setattr("/dev", unix.MOUNT_ATTR_RDONLY)
}

// mountProc covers the host's /proc with one of our pid namespace, while the
// host's is still as it was: a new one may not be less restricted.
func (b *builder) mountProc() (own bool, err error) {
	err = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if errors.Is(err, unix.EPERM) {
		// Inside a container that covers parts of its /proc the kernel refuses a
		// new one. Outer processes stay out of reach, but can be seen.
		b.warnings = append(b.warnings, "no private /proc: this machine's /proc is partly covered (are we in a container?); names of outer processes are visible inside")
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("mounting /proc: %w", err)
	}
	return true, nil
}

// takeSources opens what will not be reachable any more once the view is made.
func (b *builder) takeSources() error {
	for range b.plan.Shares {
		fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening /dev/fuse: %w", err)
		}
		b.fuse = append(b.fuse, os.NewFile(uintptr(fd), "/dev/fuse"))
	}
	take := func(path control.Text) error {
		fd, err := unix.OpenTree(unix.AT_FDCWD, string(path), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		b.clones[path] = fd
		return nil
	}
	for _, d := range devices {
		if err := take(control.Text("/dev/" + d)); err != nil {
			return err
		}
	}
	for _, m := range b.plan.Mounts {
		if m.Op == control.OpBind {
			if err := take(m.Source); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *builder) mount(m *control.Mount) error {
	if m.Served {
		if err := b.awaitServed(); err != nil {
			return err
		}
	}
	path := string(m.Path)
	switch m.Op {
	case control.OpTmpfs:
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		return unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, b.tmpfsOptions(m))
	case control.OpDir:
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		return b.own(path, m)
	case control.OpSymlink:
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.Symlink(string(m.Source), path)
	case control.OpShare:
		return b.mountShare(m)
	case control.OpBind:
		return b.attach(m.Source, path, sealed)
	case control.OpHideDir:
		return unix.Mount("tmpfs", path, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0,size=4k,nr_inodes=1")
	case control.OpHideFile:
		return b.cover(path, "", 0)
	case control.OpFile:
		return b.cover(path, string(m.Content), 0o444)
	case control.OpDev:
		return b.makeDev()
	}
	return errors.New("unknown operation")
}

func (b *builder) tmpfsOptions(m *control.Mount) string {
	o := fmt.Sprintf("mode=%o", m.Mode)
	if m.Own {
		o += fmt.Sprintf(",uid=%d,gid=%d", b.plan.UID, b.plan.GID)
	}
	return o
}

func (b *builder) own(path string, m *control.Mount) error {
	if m.Own {
		if err := os.Chown(path, b.plan.UID, b.plan.GID); err != nil {
			return err
		}
	}
	return unix.Chmod(path, m.Mode)
}

// mountShare mounts a bridge and hands its descriptor to the supervisor.
func (b *builder) mountShare(m *control.Mount) error {
	path := string(m.Path)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	f := b.fuse[m.Share]
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if m.ReadOnly {
		flags |= unix.MS_RDONLY
	}
	var fd uintptr
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	_ = rc.Control(func(n uintptr) { fd = n })
	o := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,default_permissions,allow_other", fd, os.Geteuid(), os.Getegid())
	if err := unix.Mount("sandbox", path, "fuse.sandbox", flags, o); err != nil {
		return err
	}
	b.sent++
	if err := b.report(control.Report{Share: &m.Share}, f); err != nil {
		return err
	}
	return f.Close()
}

// attach moves a detached tree to path, which is made if it is missing.
func (b *builder) attach(source control.Text, path string, attr uint64) error {
	fd := b.clones[source]
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstatat(fd, "", &st, unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	if err := makeTarget(path, st.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	if attr != 0 {
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr}); err != nil {
			return err
		}
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func makeTarget(path string, dir bool) error {
	if dir {
		return os.MkdirAll(path, 0o755)
	}
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return unix.Mknod(path, unix.S_IFREG|0o644, 0)
}

// cover binds a file with the given content over path.
func (b *builder) cover(path, content string, mode os.FileMode) error {
	b.files++
	src := hiddenDir + "/" + strconv.Itoa(b.files)
	if err := os.WriteFile(src, []byte(content), mode); err != nil {
		return err
	}
	if err := unix.Mount(src, path, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return setattr(path, sealed|unix.MOUNT_ATTR_NOEXEC)
}

func setattr(path string, attr uint64) error {
	return unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_set: attr})
}

// makeDev mounts the minimal /dev. It is made read-only after the last cover.
func (b *builder) makeDev() error {
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", "/dev", "tmpfs", flags|unix.MS_NODEV, "mode=0755,size=64k"); err != nil {
		return err
	}
	for _, d := range devices {
		if err := b.attach(control.Text("/dev/"+d), "/dev/"+d, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	for _, d := range []string{"/dev/pts", "/dev/shm", hiddenDir} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	// gid=5 is refused where that group is not mapped.
	if err := unix.Mount("devpts", "/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return fmt.Errorf("devpts: %w", err)
	}
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", flags|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("shm: %w", err)
	}
	for name, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, "/dev/"+name); err != nil {
			return err
		}
	}
	return nil
}
