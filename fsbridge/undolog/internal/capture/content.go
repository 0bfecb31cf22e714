package capture

import (
	"errors"
	"sync"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

const (
	// maxExtentFile is the largest file, in bytes, whose granules are tracked
	// one by one (its bit set takes 8 MiB). Larger ones are captured whole.
	maxExtentFile = 1 << 38
	// aheadBytes is how far a capture goes on where the last one of the file ended:
	// whoever writes in sequence needs fewer of them.
	aheadBytes = 64 << 10
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
func (s *Step) captureContent(epoch uint64, o *fsbridge.Object, off, length int64) error {
	so, err := s.recordMeta(o, false)
	if err != nil {
		return err
	}
	if so != nil {
		s.mu.Lock()
		so.state |= objContent
		s.mu.Unlock()
	}
	return s.captureObject(epoch, so, o, off, length, false)
}

// captureObject is captureContent for so, whose attributes are journaled; nil is what
// the step created. ahead says that somebody waits for a descriptor, perhaps in vain.
func (s *Step) captureObject(epoch uint64, so *stepObj, o *fsbridge.Object, off, length int64, ahead bool) error {
	if so == nil {
		o.Protect(epoch, fsbridge.ProtCreated)
		return nil
	}
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
		if err := s.orLose(so, o, s.captureRange(epoch, so, o, off, length, ahead)); err != nil {
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
func (s *Step) captureRange(epoch uint64, so *stepObj, o *fsbridge.Object, off, length int64, ahead bool) error {
	c := so.content
	r, done, err := s.reader(so, o)
	if err != nil {
		return err
	}
	defer done()
	all := off <= 0 && length >= c.size
	if c.extents == nil && (all || c.size <= s.h.Limits().InlineBytes || c.size > maxExtentFile) {
		if ahead {
			err = r.w.WholeFast(r.fd, c.size)
		} else {
			err = r.w.Whole(r.fd, c.size)
		}
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
	w  *store.ContentWriter
}

// reader opens so for reading, or takes the descriptor of the last capture;
// done keeps it for the next one or closes it.
func (s *Step) reader(so *stepObj, o *fsbridge.Object) (r *openReader, done func(), err error) {
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
	r = &openReader{so, fd, s.h.Contents.Writer(s.w, s.dir, so.id, s.spend)}
	if start, end, err := hostfs.NextData(fd, 0, so.content.size); err == nil {
		r.w.Dense = start == 0 && end == so.content.size
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
func (s *Step) keepReader(r *openReader) {
	if old := s.last.Swap(r); old != nil {
		_ = hostfs.Close(old.fd)
	}
}

// captureMissing journals the granules of the range that are not captured, and
// marks them when they are as durable as is promised: other operations go by the
// marks without a lock.
func (s *Step) captureMissing(w *store.ContentWriter, fd int, e *fsbridge.Extents, off, length int64) error {
	var from, to int64 // a run of missing granules; what is before it is journaled
	take := func() error {
		if from == to {
			return nil
		}
		if err := w.Data(fd, from, to); err != nil {
			return err
		}
		from = to
		return nil
	}
	err := e.Missing(off, length, func(start, end int64) error {
		if start != to {
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
