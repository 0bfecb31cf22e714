package store

import (
	"strconv"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// blobFanOut is how many objects share one directory below blobs/, a shard. Each
// name that is added to a directory is looked for twice among those that are there.
const blobFanOut = 32

// shard is an open directory below blobs/.
type shard struct {
	n  uint64
	fd int // -1: none
}

// comingShard is the shard that is likely to be needed next. To make one takes as
// long as to adopt several files, so it is made while they are.
type comingShard struct {
	n    uint64
	made chan int // its descriptor, or -1
}

// ShardOf is the number of the directory below blobs/ that has the blobs of obj.
func ShardOf(obj format.ObjID) uint64 { return uint64(obj) / blobFanOut }

// NameOfShard is the name of directory n below blobs/.
func NameOfShard(n uint64) string { return strconv.FormatUint(n, 10) }

// ShardName is the directory below blobs/ that has obj's blobs.
func ShardName(obj format.ObjID) string { return NameOfShard(ShardOf(obj)) }

// WithBlobDir calls f with the descriptor of the directory that holds obj's
// blobs, which stays valid during the call. With create it makes the
// directories that are missing; otherwise ENOENT says that there are none.
func (d *StepDir) WithBlobDir(obj format.ObjID, create bool, f func(fd int) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.blobs < 0 {
		fd, err := hostfs.OpenSubdir(d.FD, "blobs", create)
		if err != nil {
			return err
		}
		d.blobs = fd
	}
	if n := ShardOf(obj); d.shard.fd < 0 || d.shard.n != n {
		fd, err := d.openShard(n, create)
		if err != nil {
			return err
		}
		if d.shard.fd >= 0 {
			_ = hostfs.Close(d.shard.fd)
		}
		d.shard = shard{n, fd}
		if create && n >= d.shards {
			d.shards = n + 1
			d.keepFD(fd)
		}
	}
	if create && obj%blobFanOut >= blobFanOut/2 {
		d.prepare(d.shard.n + 1)
	}
	return f(d.shard.fd)
}

// openShard opens shard n. d.mu is held.
func (d *StepDir) openShard(n uint64, create bool) (int, error) {
	if c := d.coming; c != nil && c.n == n {
		d.coming = nil
		if fd := <-c.made; fd >= 0 {
			return fd, nil
		}
	}
	return hostfs.OpenSubdir(d.blobs, NameOfShard(n), create)
}

// prepare begins to make shard n. d.mu is held.
func (d *StepDir) prepare(n uint64) {
	if d.coming != nil && d.coming.n == n {
		return
	}
	d.dropComing()
	c := &comingShard{n: n, made: make(chan int, 1)}
	d.coming = c
	work := func() {
		fd, err := hostfs.OpenSubdir(d.blobs, NameOfShard(n), true)
		if err != nil { // whoever needs it is told
			fd = -1
		}
		c.made <- fd
	}
	if fault.WorkAhead {
		go work()
	} else {
		work()
	}
}

// Settle removes a shard that was made and not needed. After it nothing is being
// made.
func (d *StepDir) Settle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropComing()
}

// dropComing is settle. d.mu is held.
func (d *StepDir) dropComing() {
	c := d.coming
	if c == nil {
		return
	}
	d.coming = nil
	if fd := <-c.made; fd >= 0 {
		_ = hostfs.Close(fd)
		_ = hostfs.RmdirAt(d.blobs, NameOfShard(c.n)) // unless something is in it
	}
}

// ShardDirs opens the directories below blobs/, one at a time.
type ShardDirs struct {
	Base, fd int
	shard    uint64
	open     bool
}

func (s *ShardDirs) Of(obj format.ObjID) (int, error) {
	shard := ShardOf(obj)
	if s.open && s.shard == shard {
		return s.fd, nil
	}
	s.Close()
	fd, err := hostfs.OpenDirPathAt(s.Base, ShardName(obj))
	if err != nil {
		return -1, err
	}
	s.fd, s.shard, s.open = fd, shard, true
	return fd, nil
}

func (s *ShardDirs) Close() {
	if s.open {
		_ = hostfs.Close(s.fd)
		s.open = false
	}
}
