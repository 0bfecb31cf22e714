package undolog

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// External checks relative paths that the watcher saw changing: those that the
// kept steps touched and that are not as the steps left them become one
// barrier, which is returned, or a warning. Paths that the open step touches
// are in motion and left to the check at undo. It may be called at any time.
func (l *Log) External(ctx context.Context, paths []string) ([]Barrier, error) {
	var out []Barrier
	var edited []string
	var err error
	for _, p := range paths {
		if err = ctx.Err(); err != nil {
			break
		}
		var found string
		if found, err = l.externalPath(p); err != nil {
			break
		}
		if found != "" {
			edited = append(edited, found)
		}
	}
	l.stamps.mu.Lock()
	b, w, eerr := l.edited(edited)
	l.stamps.mu.Unlock()
	if w != nil {
		l.warn(*w)
	}
	if b != nil {
		out = append(out, *b)
	}
	return out, errors.Join(err, eerr)
}

// externalPath checks one path, or the nearest directory above it that there
// is, and returns what was changed.
func (l *Log) externalPath(p string) (string, error) {
	parts, err := hostfs.SplitPath(p)
	if err != nil || len(parts) == 0 {
		return "", err
	}
	for n := len(parts) - 1; n >= 0; n-- {
		dir := strings.Join(parts[:n], "/")
		fd, err := hostfs.OpenBeneath(l.root.FD(), dir, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			if gone(err) == nil {
				continue // it may be the directory that was removed
			}
			return "", err
		}
		defer hostfs.Close(fd)
		st, err := hostfs.StatFD(fd)
		if err != nil {
			return "", err
		}
		return l.externalName(&seenName{Dir: st.ID, Path: dir, FD: fd, Name: parts[n], Inside: true})
	}
	return "", nil
}

func (l *Log) externalName(n *seenName) (string, error) {
	for range 8 {
		gen := l.stamps.generation()
		st, err := hostfs.StatAt(n.FD, n.Name)
		n.Stat = &st
		if errors.Is(err, unix.ENOENT) {
			n.Stat = nil
		} else if err != nil {
			return "", gone(err)
		}
		if l.inMotion(n) || l.unseen(n.full(), n.Stat) {
			return "", nil
		}
		l.stamps.mu.Lock()
		same := gen == l.stamps.gen
		edited := same && l.stamps.differs(n)
		if edited {
			l.stamps.accept(n)
		}
		l.stamps.mu.Unlock()
		if edited {
			return n.full(), nil
		}
		if same {
			return "", nil
		}
	}
	return "", nil // steps end all the time: the check at undo will see it
}

func (t *stampTable) generation() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gen
}

// inMotion says that the open step has touched a name, its directory's
// entries or its inode, so that stamps say nothing about it.
func (l *Log) inMotion(n *seenName) bool {
	l.stamps.mu.Lock()
	applying := l.stamps.applying
	l.stamps.mu.Unlock()
	s := l.cur.Load()
	if applying || s == nil {
		return applying
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.Stat != nil && s.objs[n.Stat.ID] != nil {
		return true
	}
	return s.objs[n.Dir] != nil
}
