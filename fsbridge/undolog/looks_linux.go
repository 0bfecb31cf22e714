package undolog

import (
	"bytes"
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/gitindex"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/past"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// mostLooks is how many indexes a step of looks changes: a repository's, and those of its submodules.
const mostLooks = 16

// markLooks notes of a step that has just been closed, and is not listed yet, that it changed nothing but what git keeps
// about its looks. If that cannot be told, it did more.
func (l *Log) markLooks(e *stepEntry) {
	if e.AffectedCount == 0 || e.AffectedCount > mostLooks || e.Unprotected || e.Type == TypeAPI {
		return
	}
	dir, err := l.openListed(e)
	if err != nil {
		return
	}
	defer dir.Close()
	var paths []string
	err = store.ReadPaths(dir.FD, func(a Affected) error {
		if !gitindex.Is(a.Path) || !a.ExistedBefore || !a.ExistsAfter {
			return errNotLooks
		}
		paths = append(paths, a.Path)
		return nil
	})
	if err != nil {
		return
	}
	view, done, err := l.pastOf([]*stepEntry{e}, false)
	defer done()
	if err != nil {
		return
	}
	for _, p := range paths {
		before := &bounded{}
		if past.Content(view, p, before) != nil || !sameIndex(before.Bytes(), l.indexNow(p)) {
			return
		}
	}
	e.LooksOnly = true
	if err := store.WriteSummary(dir.FD, e.Entry); err != nil {
		l.log.Warn("a step that only looked is not marked as one", "step_id", int64(e.StepID), "err", err)
	}
}

var errNotLooks = errors.New("it did more")

func sameIndex(before, after []byte) bool {
	a, is := gitindex.Digest(before)
	b, stays := gitindex.Digest(after)
	return is && stays && a == b
}

// indexNow reads an index, or nothing.
func (l *Log) indexNow(path string) []byte {
	fd, err := hostfs.OpenBeneath(l.root.FD(), path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	if err != nil || !st.IsRegular() || st.Size > gitindex.MaxBytes {
		return nil
	}
	b := make([]byte, st.Size)
	n, err := hostfs.PreadFull(fd, b, 0)
	if err != nil {
		return nil
	}
	return b[:n]
}

// bounded is a buffer for an index.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > gitindex.MaxBytes {
		return 0, io.ErrShortWrite
	}
	return b.Buffer.Write(p)
}
