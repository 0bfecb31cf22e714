package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Reserve is space and inodes that a log keeps back on its disk, so that a step can be closed and
// put back although a command has taken all there is. It is the directory "reserve": a file that is
// allocated and empty files, all of which [Reserve.Release] removes.
type Reserve struct {
	root int // the undo directory

	mu sync.Mutex
}

const (
	reserveName  = "reserve"
	reserveSpace = "space"
	// reserveBytes and reserveFiles are what is kept back, or a quarter of what is free, and
	// for many new names more: an undo makes a directory for each blobFanOut of them, and records each.
	reserveBytes = 4 << 20
	reserveFiles = 64
	nameBytes    = 512
	// reserveNames is for how many new names more is kept back at most.
	reserveNames = 128 << 10
	// littleBytes and littleFiles are what it takes to close a step.
	littleBytes = 1 << 20
	littleFiles = 8
)

// NewReserve is that of the undo directory behind root, which stays the caller's.
func NewReserve(root int) *Reserve { return &Reserve{root: root} }

// NoSpace tells whether err says that a disk, or what somebody may take of it, is used up.
func NoSpace(err error) bool { return errors.Is(err, posix.ENOSPC) || errors.Is(err, posix.EDQUOT) }

// free is what is left on the log's disk for its owner: bytes, and inodes (-1: as many as wanted).
func (r *Reserve) free() (bytes, files int64) {
	s, err := hostfs.Statfs(r.root)
	if err != nil {
		return 0, 0
	}
	files = -1
	if s.Files > 0 {
		files = int64(min(s.Ffree, 1<<62))
	}
	return int64(min(s.Bavail, 1<<40)) * s.Bsize, files
}

// Scarce tells whether there is less left than the reserve has.
func (r *Reserve) Scarce() bool {
	bytes, files := r.free()
	return bytes < reserveBytes || files >= 0 && files < reserveFiles
}

// Make makes the reserve, or what is missing of it, if the disk has some room. That there is none is no error.
func (r *Reserve) Make() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return withoutNoSpace(r.make(0, 0))
}

// Grow makes the reserve large enough for a step that has made so many names. Call it again as
// there are more: step says how many came since.
func (r *Reserve) Grow(names, step int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if names > reserveNames {
		return nil
	}
	return withoutNoSpace(r.make(int64(names), int64(step)))
}

// make makes what is missing of the base, or of the last step of names.
func (r *Reserve) make(names, step int64) error {
	dir, err := hostfs.OpenSubdir(r.root, reserveName, true)
	if err != nil {
		return err
	}
	defer hostfs.Close(dir)
	if _, err := hostfs.StatAt(dir, "0"); err == nil && names == 0 {
		return nil // it is made last
	}
	bytes, files := r.free()
	if files < 0 {
		files = 1 << 30
	}
	from, to := (names-step)/blobFanOut+reserveFiles, names/blobFanOut+reserveFiles
	if names == 0 {
		from = 0
	}
	to = min(to, from+files/4)
	if err := makeSpace(dir, min(bytes/4, reserveBytes+names*nameBytes)); err != nil {
		return err
	}
	for i := to - 1; i >= from; i-- {
		if err := makeEmpty(dir, fmt.Sprint(i)); err != nil {
			return err
		}
	}
	return nil
}

func makeEmpty(dir int, name string) error {
	fd, err := hostfs.OpenAt(dir, name, posix.O_WRONLY|posix.O_CREAT|posix.O_NONBLOCK, 0o600)
	if err == nil {
		err = hostfs.Close(fd)
	}
	return err
}

// makeSpace allocates the file. A file system that cannot allocate has none.
func makeSpace(dir int, bytes int64) error {
	fd, err := hostfs.OpenOwn(dir, reserveSpace, posix.O_WRONLY|posix.O_CREAT)
	if err != nil {
		return err
	}
	if bytes > 0 {
		if err = hostfs.FallocateFD(fd, 0, 0, bytes); errors.Is(err, posix.EOPNOTSUPP) {
			err = nil
		}
	}
	return errors.Join(err, hostfs.Close(fd))
}

func withoutNoSpace(err error) error {
	if NoSpace(err) {
		return nil
	}
	return err
}

// Lend gives a little of the reserve to whoever needs it next, and tells whether there was any.
func (r *Reserve) Lend() (some bool) {
	return r.release(func(dir int) bool {
		if st, err := hostfs.StatAt(dir, reserveSpace); err == nil && st.Size > 0 && st.Nlink == 1 {
			if fd, err := hostfs.OpenAt(dir, reserveSpace, posix.O_WRONLY|posix.O_NONBLOCK, 0); err == nil {
				some = hostfs.TruncateFD(fd, max(st.Size-littleBytes, 0)) == nil
				_ = hostfs.Close(fd)
			}
		}
		for i := range littleFiles {
			some = hostfs.UnlinkAt(dir, fmt.Sprint(i)) == nil || some
		}
		return some
	})
}

// Release gives all of the reserve to whoever needs it next, and tells whether there was any.
func (r *Reserve) Release() (some bool) {
	return r.release(func(dir int) bool {
		names, err := hostfs.ReadDir(dir)
		for _, d := range names {
			some = hostfs.UnlinkAt(dir, d.Name) == nil || some
		}
		return err == nil && some
	})
}

func (r *Reserve) release(f func(dir int) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	dir, err := hostfs.OpenDirAt(r.root, reserveName)
	if err != nil {
		return false
	}
	defer hostfs.Close(dir)
	return f(dir)
}
