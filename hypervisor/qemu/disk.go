package qemu

import (
	"bytes"
	"compress/bzip2"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Disk is where a guest keeps what outlives its machine: its home directory, what
// is installed in /usr/local. The zero value is no disk.
//
// It is a raw file, sparse, in a directory of its own that only the user can
// enter, with an empty ext4 of [MinDiskBytes] that no guest has seen; a guest has it grow to the whole disk. From then on
// nobody but guests looks at what is in it. One machine at a time has it. The lock on the file is QEMU's where it inherits the open file. Elsewhere
// it is ours for as long as QEMU runs: on Windows QEMU lets no other write to the file, and on macOS the process that kills QEMU after us has the lock, too.
type Disk struct {
	// Path is the file's, in a directory that is made if it is missing.
	Path string
	// Bytes is the size of a disk that is made. One that is there keeps its own.
	Bytes int64
}

// MinDiskBytes is the size of the smallest disk.
const MinDiskBytes = 64 << 20

// ErrDiskInUse is wrapped where another machine has the disk.
var ErrDiskInUse = errors.New("another session has this machine's disk")

// emptyDisk is what is not zero at the beginning of an empty ext4 of MinDiskBytes, as this makes it (e2fsprogs 1.47):
//
//	truncate -s 64M F; E2FSPROGS_FAKE_TIME=1 mke2fs -F -t ext4 -b 4096 -N 8192 -m 0 -L sandbox -J size=4 -O ^orphan_file,^metadata_csum_seed,resize_inode
//		-U 53414e44-424f-5820-4449-534b20202020 -E lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0,resize=1T,hash_seed=(as -U) F
//	head -c 2760704 F | bzip2 -9
//
// Other systems than Linux have no mke2fs. It has room for the descriptions of 1 TiB; a kernel makes more if a disk is larger.
//
//go:embed empty.ext4.bz2
var emptyDisk []byte

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
		if err := d.create(); err != nil {
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
	if err := removeLocked(f, d.Path); err != nil {
		return fmt.Errorf("qemu: the persistent disk: %w", err)
	}
	_ = os.Remove(filepath.Dir(d.Path)) // unless there is something else in it
	return nil
}

// lock opens the disk and locks it. The error wraps fs.ErrNotExist if there is
// none.
func (d Disk) lock() (*os.File, error) {
	for {
		f, err := openDisk(d.Path)
		if err != nil {
			return nil, fmt.Errorf("qemu: the persistent disk: %w", err)
		}
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
	err = lockFile(f)
	if errors.Is(err, ErrDiskInUse) {
		return false, fmt.Errorf("qemu: %w (%s): end that session, or start this one with --vm-mode ephemeral", ErrDiskInUse, d.Path)
	}
	if err != nil {
		return false, fmt.Errorf("qemu: locking %s: %w", d.Path, err)
	}
	now, err := os.Lstat(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && !now.Mode().IsRegular() { // a link
		err = fmt.Errorf("%s is no regular file", d.Path)
	}
	if err != nil {
		return false, fmt.Errorf("qemu: the persistent disk: %w", err)
	}
	return os.SameFile(st, now), nil
}

// create makes an empty disk, complete at the moment it gets its name. One that
// another made meanwhile stays.
func (d Disk) create() error {
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
	err = makeSparse(f)
	if err == nil {
		err = writeEmpty(f)
	}
	if err == nil {
		err = f.Truncate(d.Bytes)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("qemu: the persistent disk: %w", err)
	}
	if err := os.Link(f.Name(), d.Path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("qemu: the persistent disk: %w", err)
	}
	return nil
}

// writeEmpty writes those blocks of an empty file system that are not zero.
func writeEmpty(f *os.File) error {
	r, block, zero := bzip2.NewReader(bytes.NewReader(emptyDisk)), make([]byte, 4096), make([]byte, 4096)
	for at := int64(0); ; at += int64(len(block)) {
		switch _, err := io.ReadFull(r, block); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the empty disk: %w", err)
		case bytes.Equal(block, zero):
			continue
		}
		if _, err := f.WriteAt(block, at); err != nil {
			return err
		}
	}
}

// Wipe implements [hypervisor.Wiper]: the next machine starts with an empty disk; without one there is
// nothing to do. The error wraps ErrDiskInUse while a machine has it.
func (r *Runtime) Wipe(ctx context.Context) error {
	if r.o.Disk.Path == "" {
		return nil
	}
	return r.o.Disk.Wipe(ctx)
}
