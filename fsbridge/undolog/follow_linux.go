package undolog

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// The kernel does one rename between directories at a time. While attachAll
// waits for that, a follower does what is left to do in the directories that
// attachAll has gone through: nothing is put into them or taken from them any
// more. It puts their metadata right, and looks at what is in them for the
// stamps. What it leaves out is done afterwards.

// followed is one directory that attachAll has gone through.
type followed struct {
	n    *node // only to be handed back
	self node  // what it shall be like; nothing else changes it
	fd   int   // O_PATH, the follower's
	meta bool  // put its metadata right
	list bool  // look for everything that is in it
	// expect is what was put into it, by name, and does not change any more.
	expect []finalName
}

// finalName is an object under its final name.
type finalName struct {
	name string
	id   hostfs.ID
	meta *objectMeta // what a directory will be like; nil: a file, which is as it will be
}

// follower is one goroutine behind attachAll.
type follower struct {
	e     *engine // of which it uses what is never changed
	jobs  chan followed
	ended chan struct{}
	looks map[hostfs.ID]*look
	right []*node // directories whose metadata is right
	err   error
}

// maxFollowed is how many directories may wait for the follower, each with a
// descriptor.
const maxFollowed = 8

// follow starts a follower. Wait for it.
func (e *engine) follow() *follower {
	f := &follower{e: e, jobs: make(chan followed, maxFollowed), ended: make(chan struct{}), looks: map[hostfs.ID]*look{}}
	go func() {
		defer close(f.ended)
		for j := range f.jobs {
			if f.err == nil {
				f.err = f.finish(&j)
			}
			_ = hostfs.Close(j.fd)
		}
	}()
	return f
}

// wait takes the results over when all is done.
func (f *follower) wait() error {
	close(f.jobs)
	<-f.ended
	for _, n := range f.right {
		n.right = true
	}
	f.e.looks = f.looks
	return f.err
}

// pass hands the directory d on, after its bindings. It does without where that
// is not possible.
func (f *follower) pass(d *node) {
	e := f.e
	if d.Obj == rootObj || d.Created { // the root also has what is parked
		return
	}
	at, err := e.dir(d)
	if err != nil {
		return
	}
	defer e.done(at)
	j := followed{n: d, self: node{objectRecord: d.objectRecord, typ: d.typ}, list: d.came}
	_, granted := e.granted[d.Obj]
	// What is below is still to be reached.
	j.meta = !granted && !d.xattrs && d.Meta.Mode&0o700 == 0o700
	for i := range e.t.binds[d.Obj] {
		b := &e.t.binds[d.Obj][i]
		n := b.want
		switch {
		case n == nil || n.place != place{inTree, d.Obj, b.name} || n.Created:
		case n.isDir():
			j.expect = append(j.expect, finalName{b.name, n.ID, &n.Meta})
		case !n.dirty && !n.content && !n.several && n.Meta.Nlink <= 1:
			j.expect = append(j.expect, finalName{name: b.name, id: n.ID})
		}
	}
	if j.fd, err = unix.FcntlInt(uintptr(at.fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		f.jobs <- j
	}
}

// finish does what there is to do in one directory.
func (f *follower) finish(j *followed) error {
	if j.meta {
		if err := faultPoint("apply.meta"); err != nil {
			return err
		}
		if f.e.setMeta(j.fd, &j.self, nil, false) == nil { // or else metaAll says what is wrong
			f.right = append(f.right, j.n)
		}
	}
	if w := f.look(j); w != nil {
		f.looks[j.self.ID] = w
	}
	return nil
}

// look is what a follower saw in one directory, sorted by name.
type look struct {
	all    bool // what it lists is all that there was
	sights []sight
}

// sight is one name in a directory and what it binds.
type sight struct {
	name string
	stat hostfs.Stat
	err  error
	// content is the content's hash, if the table needs that; only where looked is set.
	content uint64
	looked  bool // by a follower, and it has not changed since; otherwise the rest means nothing
}

func (f *follower) look(j *followed) *look {
	fd, w := j.fd, &look{all: j.list}
	if j.list {
		r, err := hostfs.OpenSelf(fd, unix.O_RDONLY)
		if err != nil {
			return nil
		}
		defer hostfs.Close(r)
		entries, err := hostfs.ReadDir(r)
		if err != nil {
			return nil
		}
		fd = r
		w.sights = make([]sight, 0, len(entries))
		for _, x := range entries {
			w.sights = append(w.sights, sight{name: x.Name})
		}
		slices.SortFunc(w.sights, func(a, b sight) int { return strings.Compare(a.name, b.name) })
	} else {
		for i := range j.expect {
			w.sights = append(w.sights, sight{name: j.expect[i].name})
		}
	}
	for i := range j.expect {
		if s := w.find(j.expect[i].name); s != nil {
			f.see(s, fd, &j.expect[i])
		}
	}
	return w
}

// see looks at x, which is below fd.
func (f *follower) see(s *sight, fd int, x *finalName) {
	st, err := hostfs.StatAt(fd, x.name)
	switch {
	case err != nil || st.ID != x.id:
		return
	case x.meta != nil:
		m := x.meta
		s.looked = st.IsDir() && st.Mode&0o7777 == m.Mode&0o7777 && st.UID == m.UID && st.GID == m.GID
	default:
		s.looked = !st.IsDir() && st.Nlink == 1
	}
	if s.stat = st; s.looked {
		s.content = f.e.l.stamps.contentOf(&seenName{FD: fd, Name: x.name, Stat: &s.stat})
	}
}

func (w *look) find(name string) *sight {
	i, ok := slices.BinarySearchFunc(w.sights, name, func(s sight, name string) int { return strings.Compare(s.name, name) })
	if !ok {
		return nil
	}
	return &w.sights[i]
}
