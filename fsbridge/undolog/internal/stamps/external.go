package stamps

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// InMotion is what [Table.External] asks about what was touched since the stamps were taken. Its methods are called
// without a lock.
type InMotion interface {
	// Name tells whether what name binds in dir was touched, or may have been.
	Name(dir hostfs.ID, name string) (touched, unsure bool)
	// Inode tells whether the inode itself was touched, or may just now be.
	Inode(id hostfs.ID) bool
	// Rests tells whether Since may say yes of anything.
	Rests() bool
	// Since tells whether an inode that was touched was changed after all that runs inside had come to rest: by somebody
	// else. st is what it is like now.
	Since(st *hostfs.Stat) bool
}

// External says of relative paths that were seen changing who changed them. Who runs inside touches nothing that is not
// known: the open step tells (moving), or the stamps do. So what neither knows was changed by somebody else, however short
// the time since the last change inside. What the
// kept steps touched and is not as they left it becomes one
// barrier, which is returned, or a warning. What the open step has touched is left to the check at undo.
func (t *Table) External(ctx context.Context, paths []string, moving InMotion) (out format.Outside, err error) {
	x := externalCheck{t: t, moving: moving}
	dirs := make(map[string][]string) // a batch has many names of few directories
	for _, p := range paths {
		dir, name := "", p
		if i := strings.LastIndexByte(p, '/'); i >= 0 {
			dir, name = p[:i], p[i+1:]
		}
		dirs[dir] = append(dirs[dir], name)
	}
	for dir, names := range dirs {
		if err = errors.Join(ctx.Err(), x.dir(dir, names)); err != nil {
			break
		}
	}
	t.Mu.Lock()
	t.overtaken = append(t.overtaken, x.found[overtaken]...)
	b, w, eerr := t.edited(x.found[edited])
	t.Mu.Unlock()
	t.tell(w)
	if b != nil {
		out.Barriers = append(out.Barriers, *b)
	}
	out.Others, out.Unsure = sorted(slices.Concat(x.found[other], x.found[overtaken])), sorted(x.found[unsure])
	return out, errors.Join(err, eerr)
}

func sorted(paths []string) []string {
	slices.Sort(paths)
	return slices.Compact(paths)
}

// verdict says who changed what was seen changing.
type verdict int

const (
	ours      verdict = iota // who runs inside; or it is as the steps left it
	edited                   // somebody outside, after a kept step
	other                    // somebody outside, and no kept step has touched it
	unsure                   // nobody can tell
	overtaken                // somebody outside, after the open step
)

// blind is how long nobody can tell who changed what the table does not know, after it was made to forget.
const blind = time.Second

// externalCheck is one call of External.
type externalCheck struct {
	t      *Table
	moving InMotion
	found  [overtaken + 1][]string
}

// dir checks some names in one directory, or the nearest directory
// above it that there is.
func (x *externalCheck) dir(dir string, names []string) error {
	parts, err := hostfs.SplitPath(dir)
	if err != nil {
		return err
	}
	for n := len(parts); ; n-- {
		err := x.beneath(strings.Join(parts[:n], "/"), names)
		if err == nil || n == 0 || gone(err) != nil {
			return gone(err)
		}
		names = parts[n-1 : n] // it may be the directory that was removed
	}
}

// beneath checks names in a directory. The error is one of those of [gone] if that is not there, or is removed meanwhile: some file
// systems (FUSE, NFS) do not describe then what is open.
func (x *externalCheck) beneath(dir string, names []string) error {
	fd, err := hostfs.OpenBeneath(x.t.cfg.Root.FD(), dir, posix.O_PATH|posix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	return x.names(fd, dir, names)
}

// names checks names in the directory behind fd.
func (x *externalCheck) names(fd int, dir string, names []string) error {
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	for _, name := range names {
		n := Seen{Dir: st.ID, Path: dir, FD: fd, Name: name, Inside: true}
		v, err := x.name(&n)
		if err != nil {
			return err
		}
		if v != ours {
			x.found[v] = append(x.found[v], n.full())
		}
	}
	return nil
}

func (x *externalCheck) name(n *Seen) (verdict, error) {
	for range 8 {
		touched, perhaps := x.moving.Name(n.Dir, n.Name)
		if touched && !x.moving.Rests() { // no look at its files
			return ours, nil
		}
		gen := x.t.generation()
		st, err := hostfs.StatAt(n.FD, n.Name)
		n.Stat = &st
		if errors.Is(err, posix.ENOENT) {
			n.Stat = nil
		} else if err != nil {
			return ours, gone(err)
		}
		if touched || n.Stat != nil && x.moving.Inode(n.Stat.ID) {
			return x.sinceTouched(n), nil
		}
		if x.t.cfg.Unseen(n.full(), n.Stat) {
			return unsure, nil
		}
		switch v, same := x.judge(n, gen); {
		case !same:
		case v == other && perhaps && n.Stat == nil: // made and removed again
			return ours, nil
		case v == other && perhaps:
			return unsure, nil
		default:
			return v, nil
		}
	}
	return ours, nil // steps end all the time: the check at undo will see it
}

// sinceTouched says who changed last what the open step has touched.
func (x *externalCheck) sinceTouched(n *Seen) verdict {
	if n.Stat == nil || n.Stat.IsDir() || !x.moving.Since(n.Stat) || x.t.cfg.Unseen(n.full(), n.Stat) {
		return ours
	}
	return overtaken
}

// Overtaken makes a barrier of what was changed from outside while the step ref was open, after the step had touched it.
func (t *Table) Overtaken(ref StepRef) error {
	t.Mu.Lock()
	paths := t.overtaken
	t.overtaken = nil
	t.Mu.Unlock()
	if len(paths) == 0 {
		return nil
	}
	return t.Edited(ref, paths)
}

// NotOvertaken says that there is no step that [Table.Overtaken] will be called for.
func (t *Table) NotOvertaken() {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.overtaken = nil
}

// judge compares a name with the stamps, if they are the same as at gen.
func (x *externalCheck) judge(n *Seen, gen uint64) (v verdict, same bool) {
	x.t.Mu.Lock()
	defer x.t.Mu.Unlock()
	if x.t.applying {
		return ours, true
	}
	if gen != x.t.gen {
		return ours, false
	}
	if v = x.t.judge(n); v == edited {
		x.t.takeEdit(n)
	}
	return v, true
}

func (t *Table) generation() uint64 {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.gen
}

// judge says who changed a name that no open step has touched. It needs mu.
func (t *Table) judge(n *Seen) verdict {
	if t.differs(n) {
		return edited
	}
	var inode inodeValue
	known := false
	if n.Stat != nil {
		inode, known = t.inodes[n.Stat.ID]
	}
	if dir, ok := t.dirs[n.Dir]; ok {
		_, named := t.names[nameKey{nameHash(n.Name), dir}]
		switch {
		case named && n.Stat != nil && !known:
			return unsure
		case named, n.Stat == nil && t.homes[dir].full: // made and removed again
			return ours
		}
	}
	switch {
	case known && inode.fits(n.Stat): // it was touched under another name
		return ours
	case t.doubt != 0 || t.cfg.Now().Sub(t.forgot) < blind:
		return unsure
	}
	return other
}
