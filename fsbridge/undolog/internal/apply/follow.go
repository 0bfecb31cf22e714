package apply

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// The kernel does one rename between directories at a time, but links and unlinks
// in several. So attachAll moves the directories, and followers do what is left in
// those that it has gone through: they give the files that come back their names and
// take those in the log from them, and then, as nothing is put into that directory
// or taken from it any more, they put its metadata right and look at what is in it for
// the stamps. What they leave out is done afterwards.
//
// A kill between the two names' changes leaves a file both: that one is found
// where it should be. Its other name goes with the log's directory, or, in the hold,
// by the next run.

// followed is one directory that attachAll has gone through.
type followed struct {
	n     *layer.Node // only to be handed back
	self  layer.Node  // what it shall be like; nothing else changes it
	fd    int         // O_PATH, the follower's
	links []linked
	only  bool // no more than links
	meta  bool // put its metadata right
	list  bool // look for everything that is in it
	// expect is what was put into it, by name, and does not change any more.
	expect []Expected
}

// linked is a file that a follower puts into a directory.
type linked struct {
	b    *layer.Bind // only to be handed back
	name string
	made bool // is in the hold, not in the target's blobs
	obj  format.ObjID
	from string // its name there
	done bool
}

// Expected is an object under its final name.
type Expected struct {
	Name string
	ID   hostfs.ID
	meta *format.Meta // what a directory will be like; nil: a file, which is as it will be
}

// follower is a few goroutines behind attachAll.
type follower struct {
	e     *Engine // of which they use what is never changed
	jobs  chan *followed
	ended sync.WaitGroup
	// refused: links are not possible, or not for us.
	refused atomic.Bool
	left    []bound // for attachAll, when all have ended

	mu    sync.Mutex
	looks map[hostfs.ID]*store.Look
	right []*layer.Node // directories whose metadata is right
	links []*followed
	err   error
}

// bound is a binding and its directory.
type bound struct {
	d *layer.Node
	b *layer.Bind
}

// maxFollowed is how many directories may wait for followers, each with a
// descriptor.
const maxFollowed = 8

// follow starts followers. Wait for them.
func (e *Engine) follow() *follower {
	f := &follower{e: e, jobs: make(chan *followed, maxFollowed), looks: map[hostfs.ID]*store.Look{}}
	for range hostfs.Workers() {
		f.ended.Go(f.work)
	}
	return f
}

func (f *follower) work() {
	own, hold := store.ShardDirs{Base: f.e.t.Own}, store.ShardDirs{Base: f.e.hold}
	defer own.Close()
	defer hold.Close()
	for j := range f.jobs {
		if !f.failed(nil) {
			f.failed(f.finish(j, &own, &hold))
		}
		_ = hostfs.Close(j.fd)
	}
}

// failed keeps the first error and tells whether there was one.
func (f *follower) failed(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
	return f.err != nil
}

// wait takes the results over when all is done.
func (f *follower) wait() error {
	close(f.jobs)
	f.ended.Wait()
	for _, j := range f.links {
		for i := range j.links {
			if x := &j.links[i]; x.done {
				f.e.attached(j.n, x.b)
			} else {
				f.left = append(f.left, bound{j.n, x.b})
			}
		}
	}
	for _, n := range f.right {
		n.Right = true
	}
	f.e.Looks = f.looks
	return f.err
}

// takes decides whether a follower puts the object of b, a wrong binding, into the
// directory of j: a file with one name, in a blob.
func (f *follower) takes(j *followed, b *layer.Bind) bool {
	d, n := j.n, b.Want
	switch {
	case n == nil || d.Obj == format.RootObj || d.Created:
		return false
	case n.Leaving: // wanted twice: the second name is given when it has the first
		f.left = append(f.left, bound{d, b})
		j.only = true
		return true
	case n.IsDir() || n.Created || n.Several || n.Shared || n.Meta.Nlink > 1 || f.refused.Load():
		return false
	}
	x := linked{b: b, name: b.Name, obj: n.Obj, from: store.BlobName(n.Obj)}
	switch n.Place.Kind {
	case layer.InOwn:
	case layer.InMade:
		x.made, x.from = true, madeName(n.Obj)
	default:
		return false
	}
	n.Leaving = true
	j.links = append(j.links, x)
	f.e.changed(d, b)
	return true
}

// pass hands a directory on.
func (f *follower) pass(j *followed) {
	e, d := f.e, j.n
	if d.Obj == format.RootObj || d.Created { // the root also has what is parked
		return
	}
	fd := -1
	at, err := e.dir(d)
	if err == nil {
		fd, err = posix.Dup(at.fd)
		e.done(at)
	}
	if len(j.links) > 0 {
		f.mu.Lock()
		f.links = append(f.links, j)
		f.mu.Unlock()
	}
	if err != nil { // it is all left
		return
	}
	j.fd, j.self, j.list = fd, layer.Node{Object: d.Object, Type: d.Type}, d.Came
	_, granted := e.granted[d.Obj]
	// What is below is still to be reached.
	j.meta = !granted && !d.Xattrs && d.Meta.Mode&0o700 == 0o700
	for i := range e.t.Binds[d.Obj] {
		b := &e.t.Binds[d.Obj][i]
		n := b.Want
		switch {
		case n == nil || n.Created || !n.Leaving && n.Place != layer.InDir(d.Obj, b.Name):
		case n.IsDir():
			j.expect = append(j.expect, Expected{b.Name, n.ID, &n.Meta})
		case !n.Dirty && !n.Content && !n.Several && n.Meta.Nlink <= 1:
			j.expect = append(j.expect, Expected{Name: b.Name, ID: n.ID})
		}
	}
	f.jobs <- j
}

// finish does what there is to do in one directory.
func (f *follower) finish(j *followed, own, hold *store.ShardDirs) error {
	// Those of one directory of the log's follow each other.
	slices.SortFunc(j.links, func(a, b linked) int { return cmp.Compare(a.obj, b.obj) })
	for i := range j.links {
		x, from := &j.links[i], own
		if x.made {
			from = hold
		}
		if err := f.link(j, x, from); err != nil {
			return err
		}
		j.only = j.only || !x.done
	}
	if j.only {
		return nil
	}
	right := false
	if j.meta {
		if err := f.e.point("apply.meta"); err != nil {
			return err
		}
		right = f.e.setMetaInPlace(j.fd, &j.self.Meta, nil, false) == nil // or else metaAll says what is wrong
	}
	w := f.e.Look(j.fd, j.expect, j.list)
	f.mu.Lock()
	defer f.mu.Unlock()
	if right {
		f.right = append(f.right, j.n)
	}
	if w != nil {
		f.looks[j.self.ID] = w
	}
	return nil
}

// link gives x its name in the directory of j. Where that is refused it is left.
func (f *follower) link(j *followed, x *linked, from *store.ShardDirs) error {
	if f.refused.Load() {
		return nil
	}
	if err := f.e.point("apply.attach"); err != nil {
		return err
	}
	fd, err := from.Of(x.obj)
	if err != nil {
		return nil
	}
	if err := hostfs.LinkAt(fd, x.from, j.fd, x.name); err != nil {
		if !errors.Is(err, posix.EEXIST) { // somebody was quicker
			f.refused.Store(true)
		}
		return nil
	}
	if err := f.e.point("apply.linked"); err != nil {
		return err
	}
	if err := hostfs.UnlinkAt(fd, x.from); err != nil && !errors.Is(err, posix.ENOENT) {
		return fmt.Errorf("take a restored file's name in the log away: %w", err)
	}
	x.done = true
	f.e.partDone()
	return nil
}

// Look sees what is in the directory behind fd: what is expected there and, if all is true,
// the names of the rest.
func (e *Env) Look(fd int, expect []Expected, all bool) *store.Look {
	w := &store.Look{All: all}
	if all {
		r, err := hostfs.OpenSelf(fd, posix.O_RDONLY)
		if err != nil {
			return nil
		}
		defer hostfs.Close(r)
		entries, err := hostfs.ReadDir(r)
		if err != nil {
			return nil
		}
		fd = r
		w.Sights = make([]store.Sight, 0, len(entries))
		for _, x := range entries {
			w.Sights = append(w.Sights, store.Sight{Name: x.Name})
		}
		slices.SortFunc(w.Sights, func(a, b store.Sight) int { return strings.Compare(a.Name, b.Name) })
	} else {
		for i := range expect {
			w.Sights = append(w.Sights, store.Sight{Name: expect[i].Name})
		}
	}
	for i := range expect {
		if s := w.Find(expect[i].Name); s != nil {
			e.see(s, fd, &expect[i])
		}
	}
	return w
}

// see looks at x, which is below fd.
func (e *Env) see(s *store.Sight, fd int, x *Expected) {
	st, err := hostfs.StatAt(fd, x.Name)
	switch {
	case err != nil || st.ID != x.ID:
		return
	case x.meta != nil:
		m := x.meta
		s.Looked = st.IsDir() && st.Mode&0o7777 == m.Mode&0o7777 && st.UID == m.UID && st.GID == m.GID
	default:
		s.Looked = !st.IsDir() && st.Nlink == 1
	}
	if s.Stat = st; s.Looked {
		s.Content = e.HashContent(fd, x.Name, &s.Stat)
	}
}
