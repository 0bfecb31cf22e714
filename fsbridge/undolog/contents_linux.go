package undolog

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
)

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
