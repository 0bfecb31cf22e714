package undolog

import (
	"bytes"
	"errors"
	"io"
	"path"

	"github.com/codeagent/sandbox/fsbridge/gitfiles"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/past"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// mostLooks is how many paths a step of looks changes: a repository's index, and those of its submodules. If git leaves an
// index as it was, the times of the directory in which it has locked it are all that has changed.
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
	var paths, dirs []string
	err = store.ReadPaths(dir.FD, func(a Affected) error {
		switch {
		case a.ExistedBefore && a.ExistsAfter && a.Type == "dir" && a.Change == "metadata":
			dirs = append(dirs, a.Path)
		case a.ExistedBefore && a.ExistsAfter && gitfiles.IsIndex(a.Path):
			paths = append(paths, a.Path)
		default:
			return errNotLooks
		}
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
	for _, d := range dirs {
		if _, is := gitfiles.IndexDigest(l.indexNow(path.Join(d, gitfiles.IndexName))); !is || !past.OnlyTimes(view, d) {
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
	a, is := gitfiles.IndexDigest(before)
	b, stays := gitfiles.IndexDigest(after)
	return is && stays && a == b
}

// indexNow reads an index, or nothing.
func (l *Log) indexNow(path string) []byte {
	fd, err := hostfs.OpenBeneath(l.root.FD(), path, posix.O_RDONLY|posix.O_NONBLOCK)
	if err != nil {
		return nil
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	if err != nil || !st.IsRegular() || st.Size > gitfiles.MaxIndexBytes {
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
	if b.Len()+len(p) > gitfiles.MaxIndexBytes {
		return 0, io.ErrShortWrite
	}
	return b.Buffer.Write(p)
}
