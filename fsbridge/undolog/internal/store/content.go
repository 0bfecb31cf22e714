package store

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

const (
	// ChunkBytes is the longest range of data in one content record.
	ChunkBytes = 256 << 10
	// minCompress is the shortest range worth compressing on the way, in bytes:
	// below it zstd costs several times what writing does.
	minCompress = 16 << 10
	// fastBytes is the smallest file that [ContentWriter.WholeFast] copies as it is: below
	// it a file of its own costs more than it saves.
	fastBytes = 1 << 20
)

// Contents makes a [ContentWriter] for each object. It may be used concurrently.
type Contents struct {
	zenc *zstd.Encoder
	// noClone is set when the file system cannot reflink.
	noClone atomic.Bool
}

// NewContents makes Contents with an encoder of two goroutines.
func NewContents() (*Contents, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(ChunkBytes))
	return &Contents{zenc: z}, err
}

// Writer makes a ContentWriter for one object of the record set in dir, whose
// journal is w. spend accounts for bytes to be copied; nil: there is no limit.
func (c *Contents) Writer(w *format.Writer, dir *StepDir, obj format.ObjID, spend func(n int64) error) *ContentWriter {
	return &ContentWriter{Contents: c, w: w, dir: dir, obj: obj, spend: spend}
}

// ContentWriter writes content records of one object.
type ContentWriter struct {
	*Contents
	w     *format.Writer
	dir   *StepDir
	obj   format.ObjID
	spend func(n int64) error
	Dense bool // the file has no holes
	raw   []byte
	batch format.Batch
	// packed is raw, compressed.
	packed []byte
}

// append journals one record.
func (c *ContentWriter) append(r *format.Content, data []byte) error {
	c.batch.Reset()
	return c.w.Append(c.batch.Content(r, data))
}

// Whole captures all of the file behind fd, whose size is size: by reflink
// where the file system offers it and the file is larger than a chunk.
func (c *ContentWriter) Whole(fd int, size int64) error {
	if size > ChunkBytes && !c.noClone.Load() {
		err := c.reflink(fd, size)
		if err == nil || !hostfs.CannotClone(err) {
			return err
		}
		c.noClone.Store(true)
	}
	return c.Data(fd, 0, size)
}

// WholeFast is Whole for a caller to whom time matters more than space: a large file that
// cannot be cloned is copied as it is.
func (c *ContentWriter) WholeFast(fd int, size int64) error {
	if size < fastBytes {
		return c.Whole(fd, size)
	}
	if !c.noClone.Load() {
		err := c.reflink(fd, size)
		if err == nil || !hostfs.CannotClone(err) {
			return err
		}
		c.noClone.Store(true)
	}
	if c.spend != nil {
		n, err := hostfs.DataBytes(fd, 0, size)
		if err == nil {
			err = c.spend(n)
		}
		if err != nil {
			return err
		}
	}
	return c.blob(size, func(out int) error {
		err := hostfs.CopyData(out, fd, size)
		if err == nil {
			c.dir.keepFD(out)
		}
		return err
	})
}

func (c *ContentWriter) reflink(fd int, size int64) error {
	return c.blob(size, func(out int) error {
		if err := fault.Point("blob.reflink"); err != nil {
			return err
		}
		return hostfs.CloneFD(out, fd)
	})
}

// blob makes a content blob of the whole file, which fill fills, and journals it.
func (c *ContentWriter) blob(size int64, fill func(out int) error) error {
	const n = 1
	name := ContentBlobName(c.obj, n)
	err := c.dir.WithBlobDir(c.obj, true, func(dir int) error {
		out, err := hostfs.MakeNew(dir, name)
		if err != nil {
			return err
		}
		if err = fill(out); err == nil {
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
	r := format.Content{Obj: c.obj, Len: size, Enc: format.EncClone, Blob: n}
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

// Data captures the bytes [from, to), holes as holes. Bytes beyond the end of
// the file, which somebody else has cut since, count as a hole.
func (c *ContentWriter) Data(fd int, from, to int64) error {
	if c.spend != nil {
		n := to - from
		if !c.Dense {
			var err error
			if n, err = hostfs.DataBytes(fd, from, to); err != nil {
				return err
			}
		}
		if err := c.spend(n); err != nil {
			return err
		}
	}
	for off := from; off < to; {
		start, end := off, to
		if !c.Dense {
			var err error
			if start, end, err = hostfs.NextData(fd, off, to); err != nil {
				return err
			}
		}
		if start > off {
			r := format.Content{Obj: c.obj, Off: off, Len: start - off, Enc: format.EncHole}
			if err := c.append(&r, nil); err != nil {
				return err
			}
			off = start
			continue
		}
		end = min(end, off+ChunkBytes)
		n, err := c.chunk(fd, off, end)
		if err != nil {
			return err
		}
		if n == 0 { // shorter than it was
			r := format.Content{Obj: c.obj, Off: off, Len: to - off, Enc: format.EncHole}
			return c.append(&r, nil)
		}
		off += n
	}
	return nil
}

// chunk captures the bytes [from, to) in one record and returns how many there
// were.
func (c *ContentWriter) chunk(fd int, from, to int64) (int64, error) {
	if int64(cap(c.raw)) < to-from {
		c.raw = make([]byte, to-from)
	}
	n, err := hostfs.PreadFull(fd, c.raw[:to-from], from)
	if err != nil || n == 0 {
		return 0, err
	}
	raw := c.raw[:n]
	r := format.Content{Obj: c.obj, Off: from, Len: int64(n), Enc: format.EncRaw}
	data := raw
	if n >= minCompress {
		if c.packed = c.zenc.EncodeAll(raw, c.packed[:0]); len(c.packed) < n {
			r.Enc, data = format.EncZstd, c.packed
		}
	}
	if err := c.append(&r, data); err != nil {
		return 0, fmt.Errorf("keep content: %w", err)
	}
	return int64(n), nil
}
