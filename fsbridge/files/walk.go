package files

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge/gitfiles"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// What a walk keeps at most: open directories on its way down, and names of one
// directory.
const (
	maxOpenDirs = 48
	maxNames    = 500_000
)

// errEnough ends a walk before its end.
var errEnough = errors.New("enough")

// dir is a directory that is walked. Whoever uses fd later than the call that
// passed the dir retains it until then.
type dir struct {
	fd    int // -1: closed, to be opened again
	id    hostfs.ID
	real  string // relative to the folder, without symlinks
	shown string // as it was asked for
	depth int

	users   atomic.Int32
	entries []dirent
	ignores gitfiles.IgnoreRules
}

type dirent struct {
	name string
	kind uint8 // DT_*
}

func (d *dir) retain() { d.users.Add(1) }

func (d *dir) release() {
	if d.users.Add(-1) == 0 && d.fd >= 0 {
		_ = hostfs.Close(d.fd)
	}
}

// walker visits what is in a directory in the order of the paths, names compared
// byte by byte. It follows no symlink and leaves out what is hidden. What cannot
// be read is left out and counted.
type walker struct {
	f     *Folder
	depth int // how far down; 0: no limit
	// search leaves out repositories' .git, gitignore what .gitignore files
	// exclude.
	search, gitignore bool
	// visit is called for each entry; kind is DT_* and never unknown. It tells
	// whether to go into a directory.
	visit func(d *dir, name string, kind uint8) (into bool, err error)

	unreadable int  // directories
	cut        bool // there were too many names

	stack []*dir
	buf   []byte
}

// walk visits what is in the directory rel.
func (w *walker) walk(ctx context.Context, rel string) error {
	t, err := w.f.resolve(rel)
	if err != nil {
		return err
	}
	defer t.close()
	return w.from(ctx, &t, rel)
}

// from visits what is in the target.
func (w *walker) from(ctx context.Context, t *target, shown string) error {
	if !t.st.IsDir() {
		return posix.ENOTDIR
	}
	w.buf = make([]byte, 64<<10)
	defer func() {
		for _, d := range w.stack {
			d.release()
		}
	}()
	fd, err := hostfs.OpenSelf(t.fd, posix.O_RDONLY)
	if err != nil {
		return err
	}
	first := &dir{fd: fd, real: t.real, shown: shown}
	if w.gitignore {
		first.ignores = w.f.ignoresAbove(t.real)
	}
	if err := w.enter(ctx, first); err != nil {
		return err
	}
	for n := 1; len(w.stack) > 0 && err == nil; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		d := w.stack[len(w.stack)-1]
		if len(d.entries) == 0 {
			w.stack = w.stack[:len(w.stack)-1]
			d.release()
			continue
		}
		e := d.entries[0]
		d.entries = d.entries[1:]
		err = w.entry(ctx, d, e)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// entry visits one entry, and enters it.
func (w *walker) entry(ctx context.Context, d *dir, e dirent) error {
	if d.fd < 0 && !w.reopen(d) {
		d.entries = nil // somebody moved it
		return nil
	}
	if e.kind == posix.DT_UNKNOWN {
		st, err := hostfs.StatAt(d.fd, e.name)
		if err != nil {
			return nil
		}
		e.kind = uint8(st.Type() >> 12)
	}
	isDir := e.kind == posix.DT_DIR
	if w.search && e.name == ".git" || d.ignores.Match(d.real, e.name, isDir) {
		return nil
	}
	into, err := w.visit(d, e.name, e.kind)
	if err != nil || !into || !isDir || w.depth > 0 && d.depth+1 >= w.depth {
		return err
	}
	fd, err := hostfs.OpenDirAt(d.fd, e.name)
	if err != nil {
		w.unread(err)
		return nil
	}
	sub := &dir{fd: fd, real: join(d.real, e.name), shown: join(d.shown, e.name), depth: d.depth + 1, ignores: d.ignores}
	return w.enter(ctx, sub)
}

// unread counts what could not be read, unless it is gone or has become
// something else meanwhile.
func (w *walker) unread(err error) {
	if !vanished(err) {
		w.unreadable++
	}
}

func vanished(err error) bool {
	return errors.Is(err, posix.ENOENT) || errors.Is(err, posix.ENOTDIR) || errors.Is(err, posix.ELOOP)
}

// enter reads a directory and puts it on the stack, which owns it then.
func (w *walker) enter(ctx context.Context, d *dir) error {
	d.retain()
	st, err := hostfs.StatFD(d.fd)
	if err == nil && !w.f.hidden.Inode(st.ID) {
		d.id = st.ID
		err = w.names(d)
	}
	if err != nil {
		w.unread(err)
	}
	if len(d.entries) == 0 {
		d.release()
		return ctx.Err()
	}
	w.stack = append(w.stack, d)
	// Those far up give their descriptors back, unless somebody uses them.
	if i := len(w.stack) - maxOpenDirs; i >= 0 {
		if up := w.stack[i]; up.fd >= 0 && up.users.Load() == 1 {
			_ = hostfs.Close(up.fd)
			up.fd = -1
		}
	}
	return ctx.Err()
}

// names reads the names that are not hidden, sorted.
func (w *walker) names(d *dir) error {
	dirPath := func() (string, bool) { return d.real, true }
	full, ignore := false, false
	for {
		more, err := hostfs.ReadDirents(d.fd, w.buf, func(e hostfs.Dirent) bool {
			if w.f.hidden.Entry(d.id, e.Name, dirPath) {
				return true
			}
			if len(d.entries) == maxNames {
				full = true
				return false
			}
			ignore = ignore || e.Name == ".gitignore"
			d.entries = append(d.entries, dirent{e.Name, e.Type})
			return true
		})
		if err != nil || !more || full {
			w.cut = w.cut || full
			if ignore && w.gitignore {
				d.ignores = d.ignores.Read(d.fd, d.real)
			}
			slices.SortFunc(d.entries, func(a, b dirent) int { return strings.Compare(a.name, b.name) })
			return err
		}
	}
}

// reopen opens a directory again whose descriptor was given back.
func (w *walker) reopen(d *dir) bool {
	fd, err := w.f.root.OpenPath(d.real, posix.O_RDONLY|posix.O_DIRECTORY)
	if err != nil {
		w.unread(err)
		return false
	}
	st, err := hostfs.StatFD(fd)
	if err != nil || st.ID != d.id {
		_ = hostfs.Close(fd)
		return false
	}
	d.fd = fd
	return true
}
