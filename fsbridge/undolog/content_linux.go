package undolog

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
)

const (
	// chunkBytes is the longest range of data in one content record.
	chunkBytes = 256 << 10
	// maxExtentFile is the largest file, in bytes, whose granules are tracked
	// one by one (its bit set takes 8 MiB). Larger ones are captured whole.
	maxExtentFile = 1 << 38
	// aheadBytes is how far a capture goes on where the last one of the file ended:
	// whoever writes in sequence needs fewer of them.
	aheadBytes = 64 << 10
	// minCompress is the shortest range worth compressing on the way, in bytes:
	// below it zstd costs several times what writing does.
	minCompress = 16 << 10
)

// contentState is the captured content of a regular file. mu is held during a
// capture, so that another one of the same inode waits for it.
type contentState struct {
	size int64 // bytes, at first touch

	mu      sync.Mutex
	whole   bool
	extents *fsbridge.Extents
	end     int64 // of the granules that the last capture saw to
}

// captureContent journals the bytes [off, off+length) of o as they are at
// first touch, and its attributes.
func (s *openStep) captureContent(epoch uint64, o *fsbridge.Object, off, length int64) error {
	so, err := s.recordMeta(o)
	if err != nil {
		return err
	}
	if so == nil {
		o.Protect(epoch, fsbridge.ProtCreated)
		return nil
	}
	s.mu.Lock()
	so.state |= objContent
	s.mu.Unlock()
	if so.content == nil { // it was empty
		if err := s.w.Sync(); err != nil {
			return err
		}
		o.Protect(epoch, fsbridge.ProtContent|fsbridge.ProtMeta)
		return nil
	}
	c := so.content
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.whole {
		if err := s.captureRange(epoch, so, o, off, length); err != nil {
			return err
		}
	}
	if err := s.w.Sync(); err != nil {
		return err
	}
	if c.whole {
		o.Protect(epoch, fsbridge.ProtContent|fsbridge.ProtMeta)
	} else {
		o.SetExtents(c.extents)
		o.Protect(epoch, fsbridge.ProtExtents|fsbridge.ProtMeta)
	}
	return nil
}

// captureRange journals what is missing of the range; all of a small file.
// so.content.mu is held.
func (s *openStep) captureRange(epoch uint64, so *stepObj, o *fsbridge.Object, off, length int64) error {
	c := so.content
	r, done, err := s.reader(so, o)
	if err != nil {
		return err
	}
	defer done()
	all := off <= 0 && length >= c.size
	if c.extents == nil && (all || c.size <= s.h.limits().InlineBytes || c.size > maxExtentFile) {
		err = r.w.whole(r.fd, c.size)
		c.whole = err == nil
	} else {
		if c.extents == nil {
			c.extents = fsbridge.NewExtents(epoch, c.size)
		}
		if end := (off/aheadBytes + 1) * aheadBytes; c.end > 0 && off <= c.end && c.end <= off+length && off+length < end {
			length = end - off
		}
		err = s.captureMissing(r.w, r.fd, c.extents, off, length)
		c.end = (min(off+length, c.size) + fsbridge.ExtentBytes - 1) &^ (fsbridge.ExtentBytes - 1)
	}
	return err
}

// openReader is a descriptor that the last partial capture read from, with its
// buffers: small writes to one large file come in long rows.
type openReader struct {
	so *stepObj
	fd int
	w  *contentWriter
}

// reader opens so for reading, or takes the descriptor of the last capture;
// done keeps it for the next one or closes it.
func (s *openStep) reader(so *stepObj, o *fsbridge.Object) (r *openReader, done func(), err error) {
	if r := s.last.Swap(nil); r != nil {
		if r.so == so {
			return r, func() { s.keepReader(r) }, nil
		}
		_ = hostfs.Close(r.fd)
	}
	fd, err := s.openReadable(so, o)
	if err != nil {
		return nil, nil, err
	}
	r = &openReader{so, fd, s.h.contents.writer(s.w, s.dir, so.id, s.spend)}
	if st, err := hostfs.StatFD(fd); err == nil {
		r.w.dense = st.Blocks*512 >= st.Size
	}
	return r, func() {
		if so.content.extents == nil { // all of it is captured
			_ = hostfs.Close(fd)
			return
		}
		s.keepReader(r)
	}, nil
}

// keepReader makes r, which may be nil, the descriptor that is kept.
func (s *openStep) keepReader(r *openReader) {
	if old := s.last.Swap(r); old != nil {
		_ = hostfs.Close(old.fd)
	}
}

// captureMissing journals the granules of the range that are not captured, and
// marks them when they are as durable as is promised: other operations go by the
// marks without a lock.
func (s *openStep) captureMissing(w *contentWriter, fd int, e *fsbridge.Extents, off, length int64) error {
	var from, to int64 // a run of missing granules; what is before it is journaled
	take := func() error {
		if from == to {
			return nil
		}
		if err := w.data(fd, from, to); err != nil {
			return err
		}
		from = to
		return nil
	}
	err := e.Missing(off, length, func(start, end int64) error {
		if start != to || to-from >= chunkBytes {
			if err := take(); err != nil {
				return err
			}
			from = start
		}
		to = end
		return nil
	})
	if err == nil {
		err = take()
	}
	if serr := s.w.Sync(); serr != nil {
		return errors.Join(err, serr)
	}
	_ = e.Missing(off, from-off, func(start, _ int64) error { e.Mark(start); return nil })
	return err
}

// openReadable opens so for reading. Where our own file denies it to us, it
// makes it readable for that moment.
func (s *openStep) openReadable(so *stepObj, o *fsbridge.Object) (int, error) {
	fd, err := s.openObject(so, o, unix.O_RDONLY)
	if !errors.Is(err, unix.EACCES) {
		return fd, err
	}
	path, perr := s.openObject(so, o, unix.O_PATH)
	if perr != nil {
		return -1, perr
	}
	defer hostfs.Close(path)
	return hostfs.ReopenLent(path, unix.O_RDONLY, s.w.Sync) // its mode is in the journal
}

// contents makes contentWriters. It may be used concurrently.
type contents struct {
	zenc *zstd.Encoder
	// noClone is set when the file system cannot reflink.
	noClone atomic.Bool
}

func newContents() (*contents, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(chunkBytes))
	return &contents{zenc: z}, err
}

// writer makes a contentWriter for one object of the record set in dir, whose
// journal is w. spend accounts for bytes to be copied; nil: there is no limit.
func (c *contents) writer(w *journal.Writer, dir *stepDir, obj journal.ObjID, spend func(n int64) error) *contentWriter {
	return &contentWriter{contents: c, w: w, dir: dir, obj: obj, spend: spend}
}

// contentWriter writes content records of one object.
type contentWriter struct {
	*contents
	w     *journal.Writer
	dir   *stepDir
	obj   journal.ObjID
	spend func(n int64) error
	dense bool // the file has no holes worth looking for
	raw   []byte
	batch journal.Batch
	// packed is raw, compressed.
	packed []byte
}

// append journals one record.
func (c *contentWriter) append(r *journal.Content, data []byte) error {
	c.batch.Reset()
	return c.w.Append(c.batch.Content(r, data))
}

// whole captures all of the file behind fd, whose size is size: by reflink
// where the file system offers it and the file is larger than a chunk.
func (c *contentWriter) whole(fd int, size int64) error {
	if size > chunkBytes && !c.noClone.Load() {
		err := c.reflink(fd, size)
		if err == nil || !hostfs.CannotClone(err) {
			return err
		}
		c.noClone.Store(true)
	}
	return c.data(fd, 0, size)
}

func (c *contentWriter) reflink(fd int, size int64) error {
	const n = 1
	name := contentBlobName(c.obj, n)
	err := c.dir.withBlobDir(c.obj, true, func(dir int) error {
		out, err := hostfs.OpenAt(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		if err = fault.Point("blob.reflink"); err == nil {
			err = hostfs.CloneFD(out, fd)
		}
		if err == nil {
			err = atLeast(out, size)
		}
		if err == nil && c.w.Durable() {
			err = hostfs.SyncFD(out)
		}
		if err = errors.Join(err, hostfs.Close(out)); err != nil {
			_ = hostfs.UnlinkAt(dir, name)
		}
		return err
	})
	if err != nil {
		return err
	}
	r := journal.Content{Obj: c.obj, Len: size, Enc: journal.EncClone, Blob: n}
	return c.append(&r, nil)
}

// atLeast makes a file that somebody else has cut as long again, by a hole.
func atLeast(fd int, size int64) error {
	st, err := hostfs.StatFD(fd)
	if err != nil || st.Size >= size {
		return err
	}
	return hostfs.TruncateFD(fd, size)
}

// data captures the bytes [from, to), holes as holes. Bytes beyond the end of
// the file, which somebody else has cut since, count as a hole.
func (c *contentWriter) data(fd int, from, to int64) error {
	if c.spend != nil {
		n := to - from
		if n > chunkBytes {
			st, err := hostfs.StatFD(fd)
			if err != nil {
				return err
			}
			n = min(n, st.Blocks*512)
		}
		if err := c.spend(n); err != nil {
			return err
		}
	}
	for off := from; off < to; {
		start, end := off, to
		if !c.dense {
			var err error
			if start, end, err = hostfs.NextData(fd, off, to); err != nil {
				return err
			}
		}
		if start > off {
			r := journal.Content{Obj: c.obj, Off: off, Len: start - off, Enc: journal.EncHole}
			if err := c.append(&r, nil); err != nil {
				return err
			}
			off = start
			continue
		}
		end = min(end, off+chunkBytes)
		n, err := c.chunk(fd, off, end)
		if err != nil {
			return err
		}
		if n == 0 { // shorter than it was
			r := journal.Content{Obj: c.obj, Off: off, Len: to - off, Enc: journal.EncHole}
			return c.append(&r, nil)
		}
		off += n
	}
	return nil
}

// chunk captures the bytes [from, to) in one record and returns how many there
// were.
func (c *contentWriter) chunk(fd int, from, to int64) (int64, error) {
	if int64(cap(c.raw)) < to-from {
		c.raw = make([]byte, to-from)
	}
	n, err := hostfs.PreadFull(fd, c.raw[:to-from], from)
	if err != nil || n == 0 {
		return 0, err
	}
	raw := c.raw[:n]
	r := journal.Content{Obj: c.obj, Off: from, Len: int64(n), Enc: journal.EncRaw}
	data := raw
	if n >= minCompress {
		if c.packed = c.zenc.EncodeAll(raw, c.packed[:0]); len(c.packed) < n {
			r.Enc, data = journal.EncZstd, c.packed
		}
	}
	if err := c.append(&r, data); err != nil {
		return 0, fmt.Errorf("keep content: %w", err)
	}
	return int64(n), nil
}
