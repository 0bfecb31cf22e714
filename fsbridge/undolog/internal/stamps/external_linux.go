package stamps

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/base"
)

// External checks relative paths that were seen changing: those that the
// kept steps touched and that are not as the steps left them become one
// barrier, which is returned, or a warning. What moving tells of (it is called
// without a lock) the open step has touched: that is left to the check at undo.
func (t *Table) External(ctx context.Context, paths []string, moving func(hostfs.ID) bool) ([]base.Barrier, error) {
	x := externalCheck{t, moving}
	var out []base.Barrier
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
		found, err = x.dir(dir, names)
		edited = append(edited, found...)
		if err != nil {
			break
		}
	}
	t.Mu.Lock()
	b, w, eerr := t.edited(edited)
	t.Mu.Unlock()
	t.tell(w)
	if b != nil {
		out = append(out, *b)
	}
	return out, errors.Join(err, eerr)
}

// externalCheck is one call of external.
type externalCheck struct {
	t      *Table
	moving func(hostfs.ID) bool
}

// dir checks some names in one directory, or the nearest directory
// above it that there is, and returns the paths that were changed.
func (x externalCheck) dir(dir string, names []string) (edited []string, err error) {
	parts, err := hostfs.SplitPath(dir)
	if err != nil {
		return nil, err
	}
	for n := len(parts); ; n-- {
		fd, err := hostfs.OpenBeneath(x.t.cfg.Root.FD(), strings.Join(parts[:n], "/"), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			if gone(err) == nil && n > 0 {
				names = parts[n-1 : n] // it may be the directory that was removed
				continue
			}
			return nil, gone(err)
		}
		edited, err = x.names(fd, strings.Join(parts[:n], "/"), names)
		_ = hostfs.Close(fd)
		return edited, err
	}
}

// names checks names in the directory behind fd.
func (x externalCheck) names(fd int, dir string, names []string) (edited []string, err error) {
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if x.touches(st.ID) { // as is all that a step does: no look at its files
			return edited, nil
		}
		n := Seen{Dir: st.ID, Path: dir, FD: fd, Name: name, Inside: true}
		found, err := x.name(&n)
		if err != nil {
			return edited, err
		}
		if found != "" {
			edited = append(edited, found)
		}
	}
	return edited, nil
}

func (x externalCheck) name(n *Seen) (string, error) {
	for range 8 {
		gen := x.t.generation()
		st, err := hostfs.StatAt(n.FD, n.Name)
		n.Stat = &st
		if errors.Is(err, unix.ENOENT) {
			n.Stat = nil
		} else if err != nil {
			return "", gone(err)
		}
		if x.inMotion(n) || x.t.cfg.Unseen(n.full(), n.Stat) {
			return "", nil
		}
		x.t.Mu.Lock()
		same := gen == x.t.gen
		edited := same && x.t.differs(n)
		if edited {
			x.t.accept(n)
		}
		x.t.Mu.Unlock()
		if edited {
			return n.full(), nil
		}
		if same {
			return "", nil
		}
	}
	return "", nil // steps end all the time: the check at undo will see it
}

func (t *Table) generation() uint64 {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.gen
}

// inMotion says that the open step has touched a name, its directory's
// entries or its inode, so that stamps say nothing about it.
func (x externalCheck) inMotion(n *Seen) bool {
	return x.touches(n.Dir) || n.Stat != nil && x.touches(n.Stat.ID)
}

// touches is inMotion for one inode.
func (x externalCheck) touches(id hostfs.ID) bool {
	x.t.Mu.Lock()
	applying := x.t.applying
	x.t.Mu.Unlock()
	return applying || x.moving(id)
}
