package stamps

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// Touched names what a step, an undo or a redo changed: by directory, the
// names; and which inodes have a place in the folder both before and after, so
// that a directory among them is not one that the step made.
type Touched struct {
	names map[hostfs.ID][]string
	known map[hostfs.ID]struct{}
	// reused are numbers of inodes that the step removed and that it gave to others: these are its own.
	reused map[hostfs.ID]struct{}
	// extra describes inodes that were touched but have no name in names: a
	// retained file with other hard links, or one written to by a handle. They are
	// described with the table locked: the log may be removing a name of one.
	extra []func() ([]hostfs.Stat, error)
	// linked are those of known that had several names, of which the records may not tell all.
	linked map[hostfs.ID]struct{}
	// stood is what was under a name when the step began, if the step did not write down that it changes what that name binds. went are
	// directories of which it did, if it did not remove them. So who finds one of them nowhere finds what somebody outside did. Only [TouchedBy] fills them.
	stood map[nameIn]stands
	went  map[nameIn]hostfs.ID
	// hidden says that some of what is touched could not be looked at.
	hidden bool
	// remap holds directories that were made anew: old to new.
	remap map[hostfs.ID]hostfs.ID
	// closed, if it is not 0, is when the step was over. What has a later ctime was changed since.
	closed int64
	// looks is what was seen already, by directory.
	looks map[hostfs.ID]*store.Look
}

// NewTouched makes an empty Touched.
func NewTouched() *Touched {
	return &Touched{names: map[hostfs.ID][]string{}, known: map[hostfs.ID]struct{}{}, linked: map[hostfs.ID]struct{}{},
		reused: map[hostfs.ID]struct{}{}}
}

// Add takes in what the journal of a step names: touched bindings, and the
// place of each recorded object.
func (t *Touched) Add(r *format.RecordSet) *Touched {
	for k := range r.Bindings {
		dir := r.Objects[k.Dir].ID
		t.names[dir] = append(t.names[dir], k.Name)
	}
	for _, o := range r.Objects {
		parent := hostfs.ID{}
		if o.Parent != format.NoObj {
			parent = r.Objects[o.Parent].ID
		}
		t.addObject(o, parent)
	}
	for obj := range r.Gone {
		if o := r.Objects[obj]; o != nil {
			t.reuse(o.ID)
		}
	}
	return t
}

// reuse notes that the number of an object is another's, which the step made.
func (t *Touched) reuse(id hostfs.ID) {
	delete(t.known, id)
	delete(t.linked, id)
	t.reused[id] = struct{}{}
}

func (t *Touched) addObject(o *format.Object, parent hostfs.ID) {
	if o.Created {
		return
	}
	t.known[o.ID] = struct{}{}
	if o.Obj != format.RootObj && o.Parent != format.NoObj { // else it is somewhere in the folder, or in a blob and perhaps in the folder, too
		t.names[parent] = append(t.names[parent], o.Name)
	}
	if o.Meta.Nlink > 1 && o.Meta.Mode&posix.S_IFMT != posix.S_IFDIR {
		t.linked[o.ID] = struct{}{}
	}
}

// TouchedBy reads from the journal of the step directory behind dirfd what the
// step touched, in one pass and without keeping the records.
func TouchedBy(dirfd int, v *format.Volumes) (*Touched, error) {
	fd, err := hostfs.OpenRegular(dirfd, "journal")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", format.ErrDamaged, err)
	}
	defer hostfs.Close(fd)
	t, ids := NewTouched(), map[format.ObjID]hostfs.ID{}
	t.stood, t.went = map[nameIn]stands{}, map[nameIn]hostfs.ID{}
	removed := map[hostfs.ID]bool{}
	var gone []hostfs.ID
	err = format.ScanJournal(fd, func(kind format.RecordType, p []byte, _ int64) error {
		switch kind {
		case format.TypeObject:
			o, err := format.DecodeObject(p)
			if err != nil {
				return err
			}
			o.ID = v.Live(o.ID)
			ids[o.Obj] = o.ID
			t.addObject(&o, ids[o.Parent])
			t.standsAt(&o, ids[o.Parent])
		case format.TypeBinding:
			b, err := format.DecodeBinding(p)
			if err != nil {
				return err
			}
			t.names[ids[b.Dir]] = append(t.names[ids[b.Dir]], b.Name)
			if b.Old != format.NoObj {
				t.takesFrom(nameIn{ids[b.Dir], b.Name}, ids[b.Old])
			}
		case format.TypeRetain, format.TypeFreed, format.TypeGone:
			id, err := format.DecodeObj(p)
			if err != nil {
				return err
			}
			if removed[ids[id]] = true; kind == format.TypeGone {
				gone = append(gone, ids[id])
			}
		}
		return nil
	})
	for _, id := range gone {
		t.reuse(id)
	}
	var torn *format.TornError
	if err != nil && !errors.As(err, &torn) {
		return nil, fmt.Errorf("%w: %w", format.ErrDamaged, err)
	}
	maps.DeleteFunc(t.went, func(_ nameIn, id hostfs.ID) bool { return removed[id] })
	return t, nil
}

// Merge takes in what more names, with the numbers that its inodes have now.
func (t *Touched) Merge(more *Touched, now func(hostfs.ID) hostfs.ID) {
	for dir, names := range more.names {
		dir = now(dir)
		t.names[dir] = append(t.names[dir], names...)
	}
	for id := range more.known {
		t.known[now(id)] = struct{}{}
	}
	for id := range more.linked {
		t.linked[now(id)] = struct{}{}
	}
}

// Describe adds inodes that are touched but have no name in what the journal names. f
// is called with the table locked.
func (t *Touched) Describe(f func() ([]hostfs.Stat, error)) { t.extra = append(t.extra, f) }

// ClosedAt says when the step was over (ns, by the clock of the file system), if that was a while
// ago: what was changed since is an edit from outside.
func (t *Touched) ClosedAt(ctime int64) { t.closed = ctime }

// changedSince tells whether st, which is what is at a name now, is not what the step left. Of a name that is free nobody
// can tell, but nothing is there to be overwritten.
func (t *Touched) changedSince(st *hostfs.Stat) bool {
	return t.closed != 0 && st != nil && !st.IsDir() && st.Ctime > t.closed
}

// Seen adds what was looked at already.
func (t *Touched) Seen(looks map[hostfs.ID]*store.Look) { t.looks = looks }

// Replaced adds what an apply replaced (nil: nothing is kept of it), and the
// directories that it made anew, old to new.
func (t *Touched) Replaced(inverse *Touched, remap map[hostfs.ID]hostfs.ID) {
	if inverse != nil { // what it does not know was put there by this undo
		for dir, names := range inverse.names {
			t.names[dir] = append(t.names[dir], names...)
		}
		t.known, t.linked = inverse.known, inverse.linked
	}
	t.remap = remap
	for _, id := range remap { // the number was another's, if it is known
		delete(t.known, id)
	}
}

// Seen is one name as it is now. Stat is nil where there is nothing.
type Seen struct {
	Dir  hostfs.ID
	Path string // of the directory
	FD   int    // of the directory, O_PATH or readable; -1 if it was looked at before
	Name string
	Stat *hostfs.Stat
	// Inside: the directory was made by the steps in question.
	Inside bool
	// Content is what ContentOf found when it was looked at before.
	Content uint64
}

func (s *Seen) full() string { return joinPath(s.Path, s.Name) }

func joinPath(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// gone drops the errors of what cannot be looked at: removed, replaced or
// closed to us. What the table says of it stays.
func gone(err error) error {
	if hostfs.CannotLook(err) {
		return nil
	}
	return err
}

// Settle stamps everything that t names, as the step seq left it.
func (s *Table) Settle(root *hostfs.Root, seq uint64, t *Touched) error {
	s.Mu.Lock()
	since, err := s.settle(root, seq, t)
	var warning *format.Warning
	if len(since) > 0 {
		var eerr error
		_, warning, eerr = s.edited(since)
		err = errors.Join(err, eerr)
	}
	err = errors.Join(err, s.flush())
	s.Mu.Unlock()
	s.tell(warning)
	return err
}

// settle returns what was changed since the step was over, and what was moved away from outside while it was open. It needs mu.
func (s *Table) settle(root *hostfs.Root, seq uint64, t *Touched) (since []string, err error) {
	s.setSeq(seq)
	s.budget = left{sameFiles, sameBytes}
	s.remap(t.remap)
	found := make(map[hostfs.ID]struct{})
	was := map[hostfs.ID]string{} // where directories that the step has moved were
	err = t.visit(root, func(n *Seen) error {
		dir := s.dirNumber(n.Dir)
		later := t.changedSince(n.Stat) && !s.cfg.Unseen(n.full(), n.Stat)
		if later || t.moved(n) && !s.cfg.Unseen(n.full(), n.Stat) {
			since = append(since, n.full())
		}
		if id, ok := t.went[nameIn{n.Dir, n.Name}]; ok {
			was[id] = n.full()
		}
		if n.Inside && !s.homes[dir].full {
			s.putDir(dir, n.Dir, true)
		}
		if n.Stat == nil {
			s.putName(dir, n.Name, 0)
			return nil
		}
		_, again := found[n.Stat.ID]
		if _, known := t.known[n.Stat.ID]; !known && !again && n.Stat.IsDir() {
			// All in it will be stamped; its number may be that of one that is no more.
			s.putDir(uint32(len(s.homes)), n.Stat.ID, true)
		}
		found[n.Stat.ID] = struct{}{}
		s.putSeen(dir, n)
		if later {
			s.editedInode(n.Stat.ID, taken)
		} else {
			s.putSame(nameKey{nameHash(n.Name), dir}, s.sameOf(n, &s.budget))
		}
		return s.flushIfLarge()
	})
	if err == nil {
		since = append(since, t.lost(was, found)...)
	}
	for _, describe := range t.extra {
		extra, derr := describe()
		err = errors.Join(err, derr)
		for i := range extra {
			if _, ok := found[extra[i].ID]; !ok {
				found[extra[i].ID] = struct{}{}
				s.putInode(extra[i].ID, s.stampFor(&extra[i]), 0)
			}
		}
	}
	more, lerr := s.settleLinked(root, t, found)
	since, err = append(since, more...), errors.Join(err, lerr)
	// What was touched and has no name any more is not known any more: its
	// number may be given to a stranger.
	for _, ids := range []map[hostfs.ID]struct{}{t.known, t.reused} {
		for id := range ids {
			if _, ok := found[id]; !ok {
				s.dropInode(id)
			}
		}
	}
	return since, err
}

// putSeen stamps a name that binds something.
func (s *Table) putSeen(dir uint32, n *Seen) {
	s.putName(dir, n.Name, n.Stat.Ino)
	s.putInode(n.Stat.ID, s.stampFor(n.Stat), s.ContentOf(n))
}

func (s *Table) flushIfLarge() error {
	if len(s.buf) < 4*frameMax {
		return nil
	}
	return s.flush()
}

// coarseBytes is how large a file may be to have its content hashed where the
// clock of ctime is too coarse to tell two writes apart.
const coarseBytes = 64 << 10

// ContentOf hashes a small file's content if the table needs that.
func (s *Table) ContentOf(n *Seen) uint64 {
	if n.FD < 0 {
		return n.Content
	}
	if !s.coarse || n.FD == 0 || !n.Stat.IsRegular() || n.Stat.Size > coarseBytes {
		return 0
	}
	fd, err := hostfs.OpenVerified(n.FD, n.Name, n.Stat.ID, posix.O_RDONLY|posix.O_NONBLOCK|posix.O_NOATIME)
	if errors.Is(err, posix.EPERM) { // O_NOATIME is the owner's
		fd, err = hostfs.OpenVerified(n.FD, n.Name, n.Stat.ID, posix.O_RDONLY|posix.O_NONBLOCK)
	}
	if err != nil {
		return 0
	}
	defer hostfs.Close(fd)
	buf := make([]byte, n.Stat.Size)
	m, err := hostfs.PreadFull(fd, buf, 0)
	if err != nil {
		return 0
	}
	h := sha256.Sum256(buf[:m])
	return binary.LittleEndian.Uint64(h[:]) | 1
}

// how says for what compare compares.
type how int

const (
	looking how = iota // nothing is taken in
	taking             // the present state is taken into the table, so that each edit is reported once
	again              // looking, before undone steps are done again: what was taken in before is an edit, too
)

// compare finds, among what t names, what is not as the table has it. skip leaves out what the log does not capture. It needs mu.
func (s *Table) compare(root *hostfs.Root, t *Touched, how how, skip func(path string, st *hostfs.Stat) bool) (edited []string, err error) {
	strays := map[hostfs.ID]struct{}{}
	for id := range t.known { // whatever becomes of the names: a file may have others
		_, ok := s.inodes[id]
		if _, linked := t.linked[id]; ok || linked && s.doubt != 0 {
			strays[id] = struct{}{}
		}
	}
	err = t.visit(root, func(n *Seen) error {
		if n.Stat != nil {
			delete(strays, n.Stat.ID)
		}
		if (s.differs(n) || s.doubtful(n) || how == again && s.wasEdited(n)) && !skip(n.full(), n.Stat) {
			edited = append(edited, n.full())
			if how == taking {
				s.takeEdit(n)
			}
		}
		return nil
	})
	if err == nil {
		err = walkFor(root, strays, func(full string, st *hostfs.Stat) {
			if v, ok := s.inodes[st.ID]; (!ok || !v.fits(st) || how == again && v.edit == taken) && !skip(full, st) {
				edited = append(edited, full)
				if how == taking {
					s.putInode(st.ID, s.stampFor(st), 0)
					s.editedInode(st.ID, taken)
				}
			}
		})
	}
	slices.Sort(edited)
	return slices.Compact(edited), err
}

// takeIn tells whether st (nil: nothing), which name in the directory dir was
// found to be before a step touched it, is not how the steps before left it. It needs mu.
func (s *Table) takeIn(dir hostfs.ID, path, name string, st *hostfs.Stat) bool {
	n := Seen{Dir: dir, Path: path, Name: name, Stat: st, Inside: true}
	if dir == (hostfs.ID{}) && st != nil { // no name that we know
		v, ok := s.inodes[st.ID]
		return ok && !v.fits(st)
	}
	if !s.differs(&n) {
		return false
	}
	s.takeEdit(&n)
	return true
}

// asLeft says that an inode is as the steps left it, as far as is known. It needs mu.
func (s *Table) asLeft(st *hostfs.Stat) bool {
	v, ok := s.inodes[st.ID]
	return !ok || v.fits(st)
}

// differs says that a name is surely not as the steps left it.
func (s *Table) differs(n *Seen) bool {
	dir, ok := s.dirs[n.Dir]
	if !ok {
		return false
	}
	key := nameKey{nameHash(n.Name), dir}
	want, ok := s.names[key]
	switch {
	case !ok: // a stranger in a directory that the sandbox made
		return n.Inside && s.homes[dir].full && n.Stat != nil
	case n.Stat == nil:
		return want.ino != 0 && !s.holdsTheSame(key, want, n)
	case n.Stat.Ino != want.ino:
		return !s.holdsTheSame(key, want, n)
	}
	v, ok := s.inodes[n.Stat.ID]
	if !ok {
		return false
	}
	if !v.fits(n.Stat) {
		return !s.holdsTheSame(key, want, n)
	}
	return v.content != 0 && n.FD > 0 && v.content != s.ContentOf(n)
}

// doubtful says that nobody can tell whether what is at n is as the steps left it. It needs mu.
func (s *Table) doubtful(n *Seen) bool {
	if s.doubt == 0 || n.Stat == nil {
		return false
	}
	_, _, ok := s.nameIn(n.Dir, n.Name)
	if ok && !n.Stat.IsDir() {
		_, ok = s.inodes[n.Stat.ID]
	}
	return !ok
}

// bound says that the steps left something under a name. It needs mu.
func (s *Table) bound(id hostfs.ID, name string) bool {
	_, v, _ := s.nameIn(id, name)
	return v.ino != 0
}

// accept takes a name as it is.
func (s *Table) accept(n *Seen) {
	dir := s.dirNumber(n.Dir)
	key := nameKey{nameHash(n.Name), dir}
	want := s.names[key]
	if want.ino == 0 && want.same == 0 {
		want.same = absent
	}
	if want.same != 0 {
		if s.was == nil {
			s.was = map[string]uint64{}
		}
		s.was[n.full()] = want.same
	}
	if n.Stat == nil {
		s.putName(dir, n.Name, 0)
	} else {
		s.putSeen(dir, n)
	}
	s.putSame(key, want.same)
}
