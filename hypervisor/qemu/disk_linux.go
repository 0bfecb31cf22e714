package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor/programs"
)

// lockPatience is how long the machine of a supervisor that was killed may take to
// end.
const lockPatience = 2 * time.Second

// Open returns the disk, locked, which is made if there is none. The lock is
// that of the open file: it ends with the last who has inherited it. The error
// wraps ErrDiskInUse if another has it.
func (d Disk) Open(ctx context.Context) (*os.File, error) {
	for {
		f, err := d.await(ctx)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if err := d.create(ctx); err != nil {
			return nil, err
		}
	}
}

// await locks the disk, maybe a moment later.
func (d Disk) await(ctx context.Context) (*os.File, error) {
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(lockPatience / 40) {
		f, err := d.lock()
		if !errors.Is(err, ErrDiskInUse) || time.Now().After(deadline) || ctx.Err() != nil {
			return f, err
		}
	}
}

// Wipe removes the disk; that there is none is no error. The error wraps
// ErrDiskInUse if a machine has it.
func (d Disk) Wipe(ctx context.Context) error {
	f, err := d.await(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Remove(d.Path); err != nil {
		return fmt.Errorf("qemu: the persistent disk: %w", err)
	}
	_ = os.Remove(filepath.Dir(d.Path)) // unless there is something else in it
	return nil
}

// lock opens the disk and locks it. The error wraps fs.ErrNotExist if there is
// none.
func (d Disk) lock() (*os.File, error) {
	for {
		fd, err := unix.Open(d.Path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return nil, fmt.Errorf("qemu: the persistent disk: %w", &fs.PathError{Op: "open", Path: d.Path, Err: err})
		}
		f := os.NewFile(uintptr(fd), d.Path)
		same, err := d.hold(f)
		if err == nil && same {
			return f, nil
		}
		_ = f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// hold locks an open disk and reports whether it still has its name: it may have
// been wiped before the lock was ours.
func (d Disk) hold(f *os.File) (same bool, err error) {
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", d.Path)
	}
	if err != nil {
		return false, fmt.Errorf("qemu: the persistent disk: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, fmt.Errorf("qemu: %w (%s): end that session, or start this one with --vm-mode ephemeral", ErrDiskInUse, d.Path)
	}
	if err != nil {
		return false, fmt.Errorf("qemu: locking %s: %w", d.Path, err)
	}
	now, err := os.Lstat(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("qemu: the persistent disk: %w", err)
	}
	return os.SameFile(st, now), nil
}

// create makes an empty disk, complete at the moment it gets its name. One that
// another made meanwhile stays.
func (d Disk) create(ctx context.Context) error {
	if d.Bytes < MinDiskBytes {
		return fmt.Errorf("qemu: a persistent disk of %d bytes is too small; it needs %d MiB", d.Bytes, MinDiskBytes>>20)
	}
	dir := filepath.Dir(d.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("qemu: the persistent disk: %w", err)
	}
	f, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return fmt.Errorf("qemu: the persistent disk: %w", err)
	}
	defer os.Remove(f.Name())
	err = f.Truncate(d.Bytes)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("qemu: the persistent disk: %w", err)
	}
	if err := makeFileSystem(ctx, f.Name()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), d.Path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("qemu: the persistent disk: %w", err)
	}
	return nil
}

// makeFileSystem writes an empty ext4, of which the guest's kernel fills in what
// is large.
func makeFileSystem(ctx context.Context, file string) error {
	program, err := programs.Find("mke2fs", guestPath+":/run/current-system/sw/bin", nil) // not in everybody's PATH, which may lead to a project's programs
	if err != nil {
		return errors.New("qemu: a persistent disk is made with mke2fs, which is not here: sudo apt install e2fsprogs (or your distribution's package)")
	}
	cmd := exec.CommandContext(ctx, program, "-q", "-F", "-t", "ext4", "-m", "0", "-L", "sandbox",
		"-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0", file)
	cmd.Env = []string{"PATH=" + guestPath, "LC_ALL=C"}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		if text := lastLines(said.String(), 1); len(text) > 0 {
			err = fmt.Errorf("%w: %s", err, text[0])
		}
		return fmt.Errorf("qemu: mke2fs: %w", err)
	}
	return nil
}

// Wipe makes the next machine start with an empty disk; without one there is
// nothing to do. The error wraps ErrDiskInUse while a machine has it.
func (r *Runtime) Wipe(ctx context.Context) error {
	if r.o.Disk.Path == "" {
		return nil
	}
	return r.o.Disk.Wipe(ctx)
}
