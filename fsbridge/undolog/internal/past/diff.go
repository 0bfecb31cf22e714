package past

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

const (
	// MaxDiffFile is the size up to which a file is compared by lines.
	MaxDiffFile = 4 << 20
	// diffRenamed bounds the files that the diff of a renamed directory lists.
	diffRenamed = 10_000
)

// Diff writes how the folder differs between two times at paths as a unified
// diff in git's style. It can use the paths once. If contents are lost, the rest is written, and it fails with the first one's ErrDamaged.
func Diff(ctx context.Context, w io.Writer, before, after *View, paths *Paths) error {
	d := &differ{w: bufio.NewWriterSize(w, 64<<10), before: before, after: after}
	if err := d.run(ctx, paths); err != nil {
		return err
	}
	return errors.Join(d.w.Flush(), d.damage)
}

// differ compares two times.
type differ struct {
	w             *bufio.Writer
	before, after *View
	found         []*entry // those with a pair
	moved         int      // pairs of renames
	damage        error    // of the first content that is lost; the others are compared
}

// diffSide is a path at one of the two times.
type diffSide struct {
	at   *entry
	path string // of at, while it is written about
	v    *View
	t    *thing // nil: nothing is there
	meta format.Meta
}

// diffPair is what is compared with what.
type diffPair struct{ from, to diffSide }

func (d *differ) run(ctx context.Context, paths *Paths) error {
	if err := d.find(ctx, &paths.top, d.before.top, d.after.top); err != nil {
		return err
	}
	if err := d.joinRenames(); err != nil {
		return err
	}
	return d.tell(ctx, &paths.top)
}

// find makes the pairs at and below e, where something was and something is.
func (d *differ) find(ctx context.Context, e *entry, was, is *thing) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.added {
		from, ferr := (diffSide{at: e, v: d.before}).of(was)
		to, terr := (diffSide{at: e, v: d.after}).of(is)
		if err := errors.Join(ferr, terr); err != nil {
			return err
		}
		e.pair = &diffPair{from, to}
		d.found = append(d.found, e)
	}
	for _, c := range e.children() {
		from, ferr := d.before.look(was, c.name)
		to, terr := d.after.look(is, c.name)
		err := errors.Join(ferr, terr)
		if errors.Is(err, fs.ErrPermission) {
			e.closed = true
			continue
		}
		if err != nil {
			return err
		}
		if err := d.find(ctx, c, from, to); err != nil {
			return err
		}
	}
	return nil
}

// tell writes what differs at and below e.
func (d *differ) tell(ctx context.Context, e *entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range e.moved {
		if err := d.pair(&e.moved[i]); err != nil {
			return err
		}
	}
	if p := e.pair; p != nil && (p.from.t == nil || !e.went) && (p.to.t == nil || !e.came) {
		if err := d.pair(p); err != nil {
			return err
		}
	}
	if e.closed {
		fmt.Fprintf(d.w, "What is in %s is not shown: %v\n", texts.Quote(e.path()), fs.ErrPermission)
	}
	for _, c := range e.children() {
		if err := d.tell(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// look is lookup where dir may be no directory. It fails with EACCES where dir is closed to us.
func (v *View) look(dir *thing, name string) (*thing, error) {
	if dir == nil || dir.typ != posix.S_IFDIR {
		return nil, nil
	}
	t, err := v.lookup(dir, name)
	if hostfs.CannotLook(err) && !errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	return t, err
}

// side looks a path up.
func side(v *View, path string) (diffSide, error) {
	s := diffSide{v: v}
	parts, err := hostfs.SplitPath(path)
	if err != nil {
		return s, err
	}
	t := v.top
	for _, name := range v.Spelled(parts) {
		if t, err = v.look(t, name); err != nil || t == nil {
			return s, err
		}
	}
	return s.of(t)
}

func (s diffSide) of(t *thing) (diffSide, error) {
	if t == nil {
		return s, nil
	}
	var err error
	s.t = t
	s.meta, _, _, err = s.v.meta(t, false)
	s.meta.Mode = s.meta.Mode&0o7777 | t.typ
	return s, err
}

// joinRenames makes one pair of a path that went and one that came with the
// same inode. Of a renamed directory it makes pairs of the files inside.
func (d *differ) joinRenames() error {
	came := map[hostfs.ID]diffSide{}
	for _, e := range d.found {
		if p := e.pair; p.from.t == nil && p.to.t != nil && p.to.t.id.Ino != 0 {
			came[p.to.t.id] = p.to
		}
	}
	for _, e := range d.found {
		p := e.pair
		if p.to.t != nil || p.from.t == nil {
			continue
		}
		to, ok := came[p.from.t.id]
		if !ok || to.t.typ != p.from.t.typ {
			continue
		}
		delete(came, p.from.t.id)
		if err := d.renamed(diffPair{p.from, to}); err != nil {
			return err
		}
	}
	return nil
}

// renamed adds a pair of different paths and, for directories, what is inside
// both.
func (d *differ) renamed(p diffPair) error {
	if d.moved >= diffRenamed {
		return nil
	}
	d.moved++
	p.to.at.moved = append(p.to.at.moved, p)
	p.from.at.went, p.to.at.came = true, true
	if p.from.t.typ != posix.S_IFDIR {
		return nil
	}
	names, err := d.before.names(p.from.t)
	if errors.Is(err, fs.ErrPermission) {
		p.to.at.closed = true
		return nil
	}
	if err != nil {
		return err
	}
	for name := range names {
		in, ferr := d.before.look(p.from.t, name)
		is, terr := d.after.look(p.to.t, name)
		err := errors.Join(ferr, terr)
		if errors.Is(err, fs.ErrPermission) {
			p.to.at.closed = true
			continue
		}
		if err != nil {
			return err
		}
		if in == nil {
			return nil
		}
		if is == nil || is.id != in.id || is.typ != in.typ {
			continue
		}
		from, ferr := (diffSide{at: p.from.at.child(name), v: d.before}).of(in)
		to, terr := (diffSide{at: p.to.at.child(name), v: d.after}).of(is)
		if err := errors.Join(ferr, terr); err != nil {
			return err
		}
		if err := d.renamed(diffPair{from, to}); err != nil {
			return err
		}
	}
	return nil
}

// gitKeeps tells whether git has a place for this type.
func gitKeeps(s *diffSide) bool {
	return s.t != nil && (s.t.typ == posix.S_IFREG || s.t.typ == posix.S_IFLNK)
}

// pair writes one difference.
func (d *differ) pair(p *diffPair) error {
	p.from.path = p.from.at.path()
	p.to.path = p.from.path
	if p.to.at != p.from.at {
		p.to.path = p.to.at.path()
	}
	defer func() { p.from.path, p.to.path = "", "" }()
	from, to := gitKeeps(&p.from), gitKeeps(&p.to)
	if from && to && p.from.t.typ != p.to.t.typ {
		gone, came := *p, *p
		gone.to.t, came.from.t = nil, nil
		return errors.Join(d.file(&gone), d.file(&came))
	}
	if from || to {
		f := *p
		if !from {
			f.from.t = nil
		}
		if !to {
			f.to.t = nil
		}
		if err := d.file(&f); err != nil {
			return err
		}
	}
	d.inWords(p, from, to)
	return nil
}

// inWords tells of directories, FIFOs and sockets.
func (d *differ) inWords(p *diffPair, from, to bool) {
	was, is := p.from.t != nil && !from, p.to.t != nil && !to
	switch {
	case was && is && p.from.t.typ == p.to.t.typ:
		if p.from.path != p.to.path {
			fmt.Fprintf(d.w, "Renamed %s %s to %s\n", format.TypeName(p.from.t.typ), texts.Quote(p.from.path), texts.Quote(p.to.path))
		}
		if a, b := p.from.meta.Mode&0o7777, p.to.meta.Mode&0o7777; a != b {
			fmt.Fprintf(d.w, "Mode of %s %s: %04o to %04o\n", format.TypeName(p.to.t.typ), texts.Quote(p.to.path), a, b)
		}
		return
	case was:
		fmt.Fprintf(d.w, "Removed %s %s\n", format.TypeName(p.from.t.typ), texts.Quote(p.from.path))
	}
	if is {
		fmt.Fprintf(d.w, "New %s %s\n", format.TypeName(p.to.t.typ), texts.Quote(p.to.path))
	}
}

// file writes a difference of regular files or symlinks, of which one may be
// missing.
func (d *differ) file(p *diffPair) error {
	a, aLarge, err := p.from.content()
	b, bLarge, berr := p.to.content()
	path, why := p.from.path, notShown(err)
	if why == nil {
		path, why = p.to.path, notShown(berr)
	}
	if why != nil {
		if d.damage == nil && errors.Is(why, format.ErrDamaged) {
			d.damage = why
		}
		d.header(p, false)
		fmt.Fprintf(d.w, "What %s held is not shown: %v\n", texts.Quote(path), why)
		return nil
	}
	if err := errors.Join(err, berr); err != nil {
		return err
	}
	same := !aLarge && !bLarge && bytes.Equal(a, b)
	both := p.from.t != nil && p.to.t != nil
	if aLarge && bLarge {
		same = p.from.t.now() && p.to.t.now() && p.from.t.id == p.to.t.id && !p.from.t.inSome()
	}
	if both && same && p.from.meta.Mode == p.to.meta.Mode && p.from.path == p.to.path {
		return nil
	}
	d.header(p, same)
	if same {
		return nil
	}
	old, now := "a/"+p.from.path, "b/"+p.to.path
	if p.from.t == nil {
		old = ""
	}
	if p.to.t == nil {
		now = ""
	}
	if aLarge || bLarge {
		fmt.Fprintf(d.w, "File too large for a diff: %s and %s differ (%d and %d bytes)\n",
			texts.DiffName(old), texts.DiffName(now), p.from.meta.Size, p.to.meta.Size)
		return nil
	}
	return texts.Unified(d.w, old, now, a, b)
}

// notShown is why the diff goes on without a content, as people read it. It is nil if err is another error, or none. A look asks
// for no rights, so a file that denies its owner reading is not shown.
func notShown(err error) error {
	switch {
	case errors.Is(err, format.ErrEdited):
		return format.ErrEdited
	case errors.Is(err, fs.ErrPermission):
		return fs.ErrPermission
	case errors.Is(err, format.ErrDamaged):
		return err
	}
	return nil
}

func (d *differ) header(p *diffPair, same bool) {
	left, right := p.from.path, p.to.path
	fmt.Fprintf(d.w, "diff --git %s %s\n", texts.Quote("a/"+left), texts.Quote("b/"+right))
	switch {
	case p.from.t == nil:
		fmt.Fprintf(d.w, "new file mode %06o\n", p.to.meta.Mode)
	case p.to.t == nil:
		fmt.Fprintf(d.w, "deleted file mode %06o\n", p.from.meta.Mode)
	case p.from.meta.Mode != p.to.meta.Mode:
		fmt.Fprintf(d.w, "old mode %06o\nnew mode %06o\n", p.from.meta.Mode, p.to.meta.Mode)
	}
	if p.from.t != nil && p.to.t != nil && left != right {
		similar := 50
		if same {
			similar = 100
		}
		fmt.Fprintf(d.w, "similarity index %d%%\nrename from %s\nrename to %s\n", similar, texts.Quote(left), texts.Quote(right))
	}
}

// content reads one side; large says that it is too large for that.
func (s *diffSide) content() (b []byte, large bool, err error) {
	switch {
	case s.t == nil:
		return nil, false, nil
	case s.t.typ == posix.S_IFLNK:
		target, err := s.target()
		return []byte(target), false, err
	case s.meta.Size > MaxDiffFile:
		return nil, true, nil
	}
	if in, ok := s.t.source.(*inode); ok {
		wanted := func(st *hostfs.Stat) bool { return st.Size <= 4*MaxDiffFile && s.v.unwritten(s.t, st) }
		if b, read, err := in.read(wanted); err == nil && read {
			return b, false, nil
		}
	}
	now, err := s.t.stat()
	if err != nil || now.Size > 4*MaxDiffFile {
		return nil, true, err // what it was is put over what it is now
	}
	fd, err := posix.Temporary("diff")
	if err != nil {
		return nil, false, err
	}
	defer hostfs.Close(fd)
	if err := s.v.write(s.t, fd); err != nil {
		if errors.Is(err, errNotKept) {
			return nil, true, nil
		}
		return nil, false, err
	}
	st, err := hostfs.StatFD(fd)
	if err != nil || st.Size > MaxDiffFile {
		return nil, true, err
	}
	b = make([]byte, st.Size)
	n, err := hostfs.PreadFull(fd, b, 0)
	return b[:n], false, err
}

func (s *diffSide) target() (string, error) {
	if s.meta.Target != "" || !s.t.now() {
		return s.meta.Target, nil
	}
	return s.t.symlink()
}
