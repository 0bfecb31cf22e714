package files

import (
	"bytes"
	"context"
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// What a worker has in memory of a file: a piece, or more where a line (and its
// context) or a multiline search needs it. A line that is longer than all of it
// is searched in parts.
const (
	pieceBytes = 256 << 10
	maxPiece   = 16 << 20
	binaryHead = 8 << 10 // where a NUL byte says that a file is no text
)

// errBinary: the file is no text.
var errBinary = errors.New("binary file")

// worker searches files, one at a time.
type worker struct {
	g   *grep
	ctx context.Context
	s   *searcher
	buf []byte
}

func newWorker(ctx context.Context, g *grep) *worker {
	return &worker{g: g, ctx: ctx, s: newSearcher(g.q), buf: make([]byte, pieceBytes)}
}

// batch searches the files of a batch, until the search ends or there is as much
// as all of it may find: the files come in their order.
func (w *worker) batch(b *batch) {
	defer close(b.done)
	for _, c := range b.files {
		if w.ctx.Err() == nil && !b.full {
			w.open(c, b)
		}
		c.d.release()
	}
}

// open opens and searches a file. The walk has seen that it is a regular one;
// where somebody has put something else there since, that is left out, and
// O_NONBLOCK keeps it from blocking.
func (w *worker) open(c candidate, b *batch) {
	fd, err := hostfs.OpenAt(c.d.fd, c.name, posix.O_RDONLY|posix.O_NONBLOCK|posix.O_NOCTTY, 0)
	if err != nil {
		if !vanished(err) && !errors.Is(err, posix.ENXIO) {
			b.out.Unreadable++
		}
		return
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	if err == nil && st.IsRegular() && !w.g.f.hidden.Inode(st.ID) {
		w.file(fd, st.Size, join(c.d.shown, c.name), b)
	}
}

// file searches an open file and adds what it finds.
func (w *worker) file(fd int, size int64, path string, b *batch) {
	r, out := &w.g.r, &b.out
	switch {
	case size == 0:
		return
	case r.Multiline && size > maxPiece:
		out.TooLarge++
		return
	case r.Multiline && size > int64(len(w.buf)):
		w.buf = make([]byte, size)
	}
	c := &collector{mode: r.Mode, before: r.Before, after: r.After, most: r.Limit - b.found, bytes: maxResultBytes - b.bytes}
	c.path, _ = Escape(path)
	err := w.pieces(fd, size, c)
	if len(w.buf) > 4*pieceBytes {
		w.buf = make([]byte, pieceBytes)
	}
	if errors.Is(err, errBinary) {
		out.Binary++
		return
	}
	if err != nil {
		out.Unreadable++
	}
	out.Truncated = out.Truncated || c.more
	b.full = c.full
	b.found += c.count
	b.bytes = maxResultBytes - c.bytes
	switch {
	case c.count == 0:
	case r.Mode == ModeFiles:
		out.Files = append(out.Files, c.path)
	case r.Mode == ModeCount:
		out.Counts = append(out.Counts, Total{c.path, c.count})
	default:
		out.Matches = append(out.Matches, c.matches...)
	}
}

// pieces searches a file piece by piece, each of whole lines.
func (w *worker) pieces(fd int, size int64, c *collector) error {
	have, done := 0, 0 // of buf: what is of the file, what of it is searched
	for off := int64(0); w.ctx.Err() == nil; {
		eof := false
		for have < len(w.buf) && !eof {
			n, err := posix.Pread(fd, w.buf[have:], off)
			if err != nil && !errors.Is(err, posix.EINTR) {
				return err
			}
			if n > 0 {
				have, off = have+n, off+int64(n)
			}
			eof = n == 0 || off >= size
		}
		if off == int64(have) && bytes.IndexByte(w.buf[:min(have, binaryHead)], 0) >= 0 {
			return errBinary
		}
		end := have
		if !eof {
			end = done + bytes.LastIndexByte(w.buf[done:have], '\n') + 1
			if end == done && w.grow() {
				continue
			}
			if end == done {
				end = have
			}
		}
		if !c.search(w.s, w.buf[:end], done) || eof {
			return nil
		}
		keep := c.rest(w.buf[:end], true)
		if keep == 0 && have == len(w.buf) && !w.grow() {
			keep = c.rest(w.buf[:end], false)
		}
		have = copy(w.buf, w.buf[keep:have])
		done = end - keep
		c.piece(keep)
	}
	return nil
}

// grow makes room for a larger piece, if it may.
func (w *worker) grow() bool {
	if len(w.buf) >= maxPiece {
		return false
	}
	buf := make([]byte, min(2*len(w.buf), maxPiece))
	copy(buf, w.buf)
	w.buf = buf
	return true
}
