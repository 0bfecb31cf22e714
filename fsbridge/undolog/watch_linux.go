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
	dirs := make(map[string][]string) // a batch has many names of few directories
	for _, p := range paths {
		dir, name := "", p
		if i := strings.LastIndexByte(p, '/'); i >= 0 {
			dir, name = p[:i], p[i+1:]
		}
		dirs[dir] = append(dirs[dir], name)
	}
	for dir, names := range dirs {
		if err = ctx.Err(); err != nil {
			break
		}
		var found []string
		found, err = l.externalDir(dir, names)
		edited = append(edited, found...)
		if err != nil {
			break
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

// externalDir checks some names in one directory, or the nearest directory
// above it that there is, and returns the paths that were changed.
func (l *Log) externalDir(dir string, names []string) (edited []string, err error) {
	parts, err := hostfs.SplitPath(dir)
	if err != nil {
		return nil, err
	}
	for n := len(parts); ; n-- {
		fd, err := hostfs.OpenBeneath(l.root.FD(), strings.Join(parts[:n], "/"), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			if gone(err) == nil && n > 0 {
				names = parts[n-1 : n] // it may be the directory that was removed
				continue
			}
			return nil, gone(err)
		}
		edited, err = l.externalNames(fd, strings.Join(parts[:n], "/"), names)
		_ = hostfs.Close(fd)
		return edited, err
	}
}

// externalNames checks names in the directory behind fd.
func (l *Log) externalNames(fd int, dir string, names []string) (edited []string, err error) {
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if l.touchedNow(st.ID) { // as is all that a step does: no look at its files
			return edited, nil
		}
		n := seenName{Dir: st.ID, Path: dir, FD: fd, Name: name, Inside: true}
		found, err := l.externalName(&n)
		if err != nil {
			return edited, err
		}
		if found != "" {
			edited = append(edited, found)
		}
	}
	return edited, nil
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
	return l.touchedNow(n.Dir) || n.Stat != nil && l.touchedNow(n.Stat.ID)
}

// touchedNow is inMotion for one inode.
func (l *Log) touchedNow(id hostfs.ID) bool {
	l.stamps.mu.Lock()
	applying := l.stamps.applying
	l.stamps.mu.Unlock()
	s := l.cur.Load()
	if applying || s == nil {
		return applying
	}
	return s.Knows(id)
}
