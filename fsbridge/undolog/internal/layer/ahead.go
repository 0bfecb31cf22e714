package layer

import (
	"errors"
	"slices"
	"strconv"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// Reading is a step directory that is being read: the records by
// one goroutine, the pack by another, the blobs by others.
type Reading struct {
	Dir   *store.StepDir
	blobs int // descriptor, -1: there are none
	scan  *BlobScan
	done  chan struct{} // closed when the two below are there
	rec   *format.RecordSet
	err   error

	packDone chan struct{}     // closed when these are there
	packed   *store.PackReader // nil: none, or taken
	packErr  error
}

// Read begins to read the step directory dir, which must stay open, while something
// else is done. Close the reading, or load a layer from it.
func Read(dir *store.StepDir) *Reading {
	r := &Reading{Dir: dir, done: make(chan struct{}), packDone: make(chan struct{})}
	var err error
	if r.blobs, err = hostfs.OpenDirPathAt(dir.FD, "blobs"); err != nil {
		r.blobs = -1
	}
	r.scan = ScanAhead(r.blobs)
	go func() {
		defer close(r.done)
		if r.err = err; err == nil || errors.Is(err, posix.ENOENT) {
			r.rec, r.err = store.ReadRecords(dir)
		}
	}()
	go func() {
		defer close(r.packDone)
		if r.packed, r.packErr = store.OpenSoundPack(dir.FD); r.packed != nil {
			r.packed.Live(dir.Volumes)
		}
	}()
	return r
}

// Records waits for what the journal says. The caller does not change it.
func (r *Reading) Records() (*format.RecordSet, error) {
	<-r.done
	return r.rec, r.err
}

// pack waits for the pack, which is the caller's to close; nil if there is none.
func (r *Reading) pack() (*store.PackReader, error) {
	<-r.packDone
	p := r.packed
	r.packed = nil
	return p, r.packErr
}

// Close ends the reading. The second time it does nothing.
func (r *Reading) Close() {
	if r.scan == nil {
		return
	}
	<-r.done
	if p, _ := r.pack(); p != nil {
		p.Close()
	}
	r.scan.Stop()
	r.scan = nil
	if r.blobs >= 0 {
		_ = hostfs.Close(r.blobs)
		r.blobs = -1
	}
}

// Bucket is one directory below a blobs directory, with what each entry is. Err says that it
// could not be read.
type Bucket struct {
	Shard   uint64
	Entries []hostfs.Dirent
	Stats   []hostfs.Stat
	Err     error
}

// BlobScan reads the buckets of a blobs directory ahead of whoever receives them from Some,
// which is closed at the end. Stop it.
type BlobScan struct {
	Some chan []Bucket
	end  chan struct{} // closed: nobody asks any more
}

// ScanAhead begins to read the blobs directory base, which must stay open until
// the scan is stopped. A negative base is an empty directory.
func ScanAhead(base int) *BlobScan {
	s := &BlobScan{Some: make(chan []Bucket, 4), end: make(chan struct{})}
	go func() {
		defer close(s.Some)
		if base < 0 {
			return
		}
		buckets, err := readBuckets(base)
		if err != nil {
			buckets = []Bucket{{Err: err}}
		}
		for some := range slices.Chunk(buckets, 16) {
			hostfs.Each(len(some), func(i int) { some[i].read(base) })
			select {
			case s.Some <- some:
			case <-s.end:
				return
			}
		}
	}()
	return s
}

// Stop ends the scan and waits for that. It may be called once.
func (s *BlobScan) Stop() {
	close(s.end)
	for range s.Some {
	}
}

func readBuckets(base int) ([]Bucket, error) {
	entries, err := hostfs.ReadDirAt(base)
	var buckets []Bucket
	for _, b := range entries {
		if shard, err := strconv.ParseUint(b.Name, 10, 32); err == nil && strconv.FormatUint(shard, 10) == b.Name {
			buckets = append(buckets, Bucket{Shard: shard})
		}
	}
	return buckets, err
}

func (b *Bucket) read(base int) {
	if b.Err != nil {
		return
	}
	fd, err := hostfs.OpenDirAt(base, strconv.FormatUint(b.Shard, 10))
	if err != nil {
		b.Err = err
		return
	}
	defer hostfs.Close(fd)
	if b.Entries, b.Err = hostfs.ReadDir(fd); b.Err != nil {
		return
	}
	b.Stats = make([]hostfs.Stat, len(b.Entries))
	for i, x := range b.Entries {
		if b.Stats[i], b.Err = hostfs.StatAt(fd, x.Name); b.Err != nil {
			return
		}
	}
}
