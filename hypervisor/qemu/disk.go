package qemu

import "errors"

// Disk is where a guest keeps what outlives its machine: its home directory, what
// is installed in /usr/local. The zero value is no disk.
//
// It is a raw file, sparse, in a directory of its own that only the user can
// enter, with an ext4 that mke2fs makes before any guest has seen it. From then on
// nobody but guests looks at what is in it. One machine at a time has it: its QEMU
// holds a lock (flock) on the file.
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
