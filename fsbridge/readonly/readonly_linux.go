package readonly

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxRecord bounds a record, in bytes: two ids and a path, escaped.
const maxRecord = 64 << 10

// mountIDUnique asks statx(2) for the number of a mount that no other gets until the machine stops (STATX_MNT_ID_UNIQUE, since Linux 6.8).
const mountIDUnique = 0x4000

// Mount is a read-only mount over a folder. Its methods are not safe for concurrent use.
type Mount struct {
	folder string
	record *os.File // locked as long as this process lives
}

// record is what is known about a mount when its maker is gone.
type record struct {
	Boot   string `json:"boot"`   // the run of the machine
	Folder string `json:"folder"` // where it is mounted
	Mount  uint64 `json:"mount"`  // its number
}

// Cover mounts a read-only copy of a folder's mount, and of what is mounted below, over the folder. The folder is an absolute path without symlinks, and records are in dir. It fails with an
// error that wraps [errors.ErrUnsupported] where that cannot be, and changes nothing then. Another process that covers the same folder is an error, too.
func Cover(dir, folder string) (_ *Mount, err error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("only root can make %s read-only for other processes: %w", folder, errors.ErrUnsupported)
	}
	tree, err := readOnlyTree(folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unix.Close(tree)) }()
	f, err := lockedRecord(dir, folder, true)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be made read-only for other processes: %w", folder, err)
	}
	m := &Mount{folder: folder, record: f}
	if err := m.attach(tree); err != nil {
		return nil, errors.Join(err, m.TakeOff())
	}
	return m, nil
}

// readOnlyTree copies the mounts at and below a folder, detached and read-only.
func readOnlyTree(folder string) (fd int, err error) {
	fd, err = unix.OpenTree(unix.AT_FDCWD, folder, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, fmt.Errorf("a mount of %s cannot be copied: %w", folder, unsupported(err))
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return -1, errors.Join(fmt.Errorf("a mount of %s cannot be made read-only: %w", folder, unsupported(err)), unix.Close(fd))
	}
	return fd, nil
}

// unsupported adds to an error of the kernel's that it does not let this process mount.
func unsupported(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("the kernel does not allow it here: %w: %w", err, errors.ErrUnsupported)
	}
	return err
}

// attach mounts a detached tree over the folder, once it is written down which it is: its number does not change.
func (m *Mount) attach(tree int) error {
	number, err := mountOf(tree, "")
	if err == nil {
		err = m.write(record{Boot: boot(), Folder: m.folder, Mount: number})
	}
	if err != nil {
		return err
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, m.folder, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mounting over %s: %w", m.folder, unsupported(err))
	}
	return nil
}

// mountOf is the number of the mount that a path, or with "" a descriptor, leads to. Before Linux 6.8 a mount that is made later can have the same one.
func mountOf(fd int, path string) (uint64, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW
	if path == "" {
		flags = unix.AT_EMPTY_PATH
	}
	for _, want := range []int{mountIDUnique, unix.STATX_MNT_ID} {
		var st unix.Statx_t
		if err := unix.Statx(fd, path, flags, want, &st); err != nil {
			return 0, &fs.PathError{Op: "statx", Path: path, Err: err}
		}
		if st.Mask&uint32(want) != 0 {
			return st.Mnt_id, nil
		}
	}
	return 0, fmt.Errorf("this kernel does not number mounts: %w", errors.ErrUnsupported)
}

func (m *Mount) write(r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := m.record.Truncate(0); err != nil {
		return err
	}
	_, err = m.record.WriteAt(b, 0)
	return err
}

// TakeOff takes the mount off, and removes its record. If the mount is not there any more, or something else is mounted over it, that stays as it is. Later calls do nothing.
func (m *Mount) TakeOff() error {
	if m == nil || m.record == nil {
		return nil
	}
	_, err := takeOff(m.record, m.folder)
	m.record = nil
	return err
}

// Uncover takes off the mount over a folder that a killed process has left, and tells whether there was one. It leaves a mount alone whose process lives.
func Uncover(dir, folder string) (bool, error) {
	f, err := leftRecord(dir, folder)
	if f == nil {
		return false, err
	}
	return takeOff(f, folder)
}

// Left tells whether there is a mount that [Uncover] would take off, and changes nothing.
func Left(dir, folder string) (bool, error) {
	f, err := leftRecord(dir, folder)
	if f == nil {
		return false, err
	}
	defer f.Close()
	r, err := recordIn(f, folder)
	if err != nil || r == nil {
		return false, err
	}
	return r.stands()
}

// leftRecord opens and locks the record of a mount whose process is gone; nil: there is none, or nobody but root has any.
func leftRecord(dir, folder string) (*os.File, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	f, err := lockedRecord(dir, folder, false)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errHeld):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("the read-only mount over %s: %w", folder, err)
	}
	return f, nil
}

// takeOff removes what a locked record tells, and the record, which it closes.
func takeOff(f *os.File, folder string) (found bool, err error) {
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := recordIn(f, folder)
	if err != nil {
		return false, err
	}
	if r != nil {
		if found, err = r.unmount(); err != nil {
			return false, err // the record stays, for the next try
		}
	}
	return found, os.Remove(f.Name())
}

// recordIn reads the record of a folder; nil: it is damaged, of another folder, or from before the machine has started.
func recordIn(f *os.File, folder string) (*record, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxRecord))
	if err != nil {
		return nil, err
	}
	var r record
	if json.Unmarshal(b, &r) != nil || r.Boot != boot() || r.Folder != folder {
		return nil, nil
	}
	return &r, nil
}

// stands tells whether the mount that a record names is the uppermost at its place and still read-only.
func (r *record) stands() (bool, error) {
	number, err := mountOf(unix.AT_FDCWD, r.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || number != r.Mount {
		return false, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(r.Folder, &st); err != nil {
		return false, err
	}
	return st.Flags&unix.ST_RDONLY != 0, nil
}

// unmount takes off the mount that a record names, if it stands.
func (r *record) unmount() (bool, error) {
	if stands, err := r.stands(); err != nil || !stands {
		return false, err
	}
	if err := unix.Unmount(r.Folder, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return false, fmt.Errorf("the read-only mount over %s cannot be taken off: %w; as root, run: umount -l %s", r.Folder, err, r.Folder)
	}
	return true, nil
}

// errHeld is a record whose process lives.
var errHeld = errors.New("another session makes it read-only")

// lockedRecord opens the record of a folder and locks it.
func lockedRecord(dir, folder string, create bool) (*os.File, error) {
	flags := os.O_RDWR | unix.O_NOFOLLOW
	if create {
		flags |= os.O_CREATE
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	if err := ownAlone(dir); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(folder))
	path := filepath.Join(dir, hex.EncodeToString(sum[:16]))
	for {
		f, err := os.OpenFile(path, flags, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			if errors.Is(err, unix.EWOULDBLOCK) {
				err = errHeld
			}
			return nil, errors.Join(err, f.Close())
		}
		if is(f, path) {
			return f, nil
		}
		_ = f.Close() // who had it has removed it meanwhile
	}
}

// ownAlone reports a directory that others could have put records in.
func ownAlone(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	own, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.IsDir() || int(own.Uid) != os.Geteuid() || st.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s must be a directory that only root can write to", dir)
	}
	return nil
}

// is tells whether a path still leads to an open file.
func is(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

// boot names this run of the machine.
func boot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}
