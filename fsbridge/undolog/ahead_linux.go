package undolog

import (
	"errors"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/pack"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// reading is a step directory that is being read: the records by
// one goroutine, the pack by another, the blobs by others.
type reading struct {
	dir   *store.StepDir
	blobs int // descriptor, -1: there are none
	scan  *blobScan
	done  chan struct{} // closed when the two below are there
	rec   *journal.Set
	err   error

	packDone chan struct{} // closed when these are there
	packed   *pack.Reader  // nil: none, or taken
	packErr  error
}

// readAhead begins to read the step directory dir, which must stay open, while something
// else is done. Close the reading, or load a layer from it.
func readAhead(dir *store.StepDir) *reading {
	r := &reading{dir: dir, done: make(chan struct{}), packDone: make(chan struct{})}
	var err error
	if r.blobs, err = hostfs.OpenDirPathAt(dir.FD, "blobs"); err != nil {
		r.blobs = -1
	}
	r.scan = scanAhead(r.blobs)
	go func() {
		defer close(r.done)
		if r.err = err; err == nil || errors.Is(err, unix.ENOENT) {
			r.rec, r.err = journal.Read(dir.FD)
		}
	}()
	go func() {
		defer close(r.packDone)
		r.packed, r.packErr = pack.OpenSound(dir.FD)
	}()
	return r
}

// records waits for them.
func (r *reading) records() (*journal.Set, error) {
	<-r.done
	return r.rec, r.err
}

// pack waits for the pack, which is the caller's to close; nil if there is none.
func (r *reading) pack() (*pack.Reader, error) {
	<-r.packDone
	p := r.packed
	r.packed = nil
	return p, r.packErr
}

// close ends the reading. The second time it does nothing.
func (r *reading) close() {
	if r.scan == nil {
		return
	}
	<-r.done
	if p, _ := r.pack(); p != nil {
		p.Close()
	}
	r.scan.stop()
	r.scan = nil
	if r.blobs >= 0 {
		_ = hostfs.Close(r.blobs)
		r.blobs = -1
	}
}

// scannedBucket is what one bucket of a blobs directory holds.
type scannedBucket struct {
	shard   uint64
	entries []hostfs.Dirent
	stats   []hostfs.Stat
	err     error
}

// blobScan reads the buckets of a blobs directory ahead of whoever asks for
// them.
type blobScan struct {
	some chan []scannedBucket
	end  chan struct{} // closed: nobody asks any more
}

// scanAhead begins to read the blobs directory base, which must stay open until
// the scan is stopped. A negative base is an empty directory.
func scanAhead(base int) *blobScan {
	s := &blobScan{some: make(chan []scannedBucket, 4), end: make(chan struct{})}
	go func() {
		defer close(s.some)
		if base < 0 {
			return
		}
		buckets, err := readBuckets(base)
		if err != nil {
			buckets = []scannedBucket{{err: err}}
		}
		for some := range slices.Chunk(buckets, 16) {
			hostfs.Each(len(some), func(i int) { some[i].read(base) })
			select {
			case s.some <- some:
			case <-s.end:
				return
			}
		}
	}()
	return s
}

// stop ends the scan and waits for that. It may be called once.
func (s *blobScan) stop() {
	close(s.end)
	for range s.some {
	}
}

func readBuckets(base int) ([]scannedBucket, error) {
	entries, err := hostfs.ReadDirAt(base)
	var buckets []scannedBucket
	for _, b := range entries {
		if shard, err := strconv.ParseUint(b.Name, 10, 32); err == nil && strconv.FormatUint(shard, 10) == b.Name {
			buckets = append(buckets, scannedBucket{shard: shard})
		}
	}
	return buckets, err
}

func (b *scannedBucket) read(base int) {
	if b.err != nil {
		return
	}
	fd, err := hostfs.OpenDirAt(base, strconv.FormatUint(b.shard, 10))
	if err != nil {
		b.err = err
		return
	}
	defer hostfs.Close(fd)
	if b.entries, b.err = hostfs.ReadDir(fd); b.err != nil {
		return
	}
	b.stats = make([]hostfs.Stat, len(b.entries))
	for i, x := range b.entries {
		if b.stats[i], b.err = hostfs.StatAt(fd, x.Name); b.err != nil {
			return
		}
	}
}
