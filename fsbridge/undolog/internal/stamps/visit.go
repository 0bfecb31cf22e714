package stamps

import (
	"errors"
	"slices"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

type seenDir struct {
	id     hostfs.ID
	path   string
	inside bool
}

// visitor is one walk through what was touched, by several goroutines, each of
// which has one directory open at a time. The lock is taken once for most
// directories: there are thousands, and each sleep on it costs more than one.
type visitor struct {
	t    *Touched
	root *hostfs.Root
	f    func(*Seen) error

	mu      sync.Mutex // f is called with it held
	cond    sync.Cond
	queue   []seenDir
	done    map[hostfs.ID]bool
	busy    int
	waiting int
	err     error
}

// visit calls f for every touched name in the directories that are still in
// the folder, and for everything in the directories that were made. Which
// directories those are follows from what is found under the touched names,
// beginning at the root: nothing is looked up by an old path. The calls come
// from several goroutines, one at a time and in no order.
func (t *Touched) visit(root *hostfs.Root, f func(*Seen) error) error {
	v := &visitor{t: t, root: root, f: f, queue: []seenDir{{id: root.ID()}}, done: map[hostfs.ID]bool{}}
	v.cond.L = &v.mu
	hostfs.Each(hostfs.Workers(), func(int) { v.work() })
	return v.err
}

func (v *visitor) work() {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer v.cond.Broadcast()
	for {
		for len(v.queue) == 0 && v.busy > 0 && v.err == nil {
			v.waiting++
			v.cond.Wait()
			v.waiting--
		}
		if len(v.queue) == 0 || v.err != nil {
			return
		}
		d := v.queue[len(v.queue)-1]
		v.queue = v.queue[:len(v.queue)-1]
		if v.done[d.id] {
			continue
		}
		v.done[d.id] = true
		v.busy++
		v.visitDir(d)
		v.busy--
		if v.waiting > 0 && (len(v.queue) > 0 || v.busy == 0) {
			v.cond.Broadcast()
		}
	}
}

// fail keeps the first error. It needs mu.
func (v *visitor) fail(err error) {
	if v.err == nil {
		v.err = err
	}
}

// visitDir visits one directory and queues those below it that are of
// interest. A directory that went away meanwhile is left out. It is called with mu held,
// and returns with it, but looks around without.
func (v *visitor) visitDir(d seenDir) {
	v.mu.Unlock()
	seen, names, complete := v.known(d)
	v.mu.Lock()
	if more, err := v.saw(d, -1, seen); err != nil || !more || complete && len(names) == 0 {
		v.fail(err)
		return
	}
	v.mu.Unlock()
	fd, names, err := v.open(d, names, !complete)
	if err != nil {
		v.mu.Lock()
		v.t.hidden = v.t.hidden || !errors.Is(err, posix.ENOENT)
		v.fail(gone(err))
		return
	}
	defer hostfs.Close(fd)
	for first := true; first || len(names) > 0; first = false {
		if !first {
			v.mu.Unlock()
		}
		some := make([]store.Sight, min(len(names), 128))
		for i, name := range names[:len(some)] {
			some[i].Name = name
			some[i].Stat, some[i].Err = hostfs.StatAt(fd, name)
		}
		names = names[len(some):]
		v.mu.Lock()
		if more, err := v.saw(d, fd, some); err != nil || !more {
			v.fail(err)
			return
		}
	}
}

// known says what is known already of a directory, and which names are to be
// looked at; without complete there may be more.
func (v *visitor) known(d seenDir) (seen []store.Sight, names []string, complete bool) {
	w := v.t.looks[d.id]
	if d.inside && (w == nil || !w.All) {
		return nil, nil, false
	}
	if d.inside {
		for i := range w.Sights {
			if !w.Sights[i].Looked {
				names = append(names, w.Sights[i].Name)
			}
		}
	} else {
		names = slices.Clone(v.t.names[d.id])
		slices.Sort(names)
		names = slices.Compact(names)
	}
	if w == nil {
		return nil, names, true
	}
	if !d.inside {
		names = slices.DeleteFunc(names, func(name string) bool { s := w.Find(name); return s != nil && s.Looked })
	}
	return w.Sights, names, true
}

// open opens a directory; with list it says which names are in it.
func (v *visitor) open(d seenDir, names []string, list bool) (fd int, all []string, err error) {
	flags := posix.O_PATH | posix.O_DIRECTORY
	if list {
		flags = posix.O_RDONLY | posix.O_DIRECTORY
	}
	if fd, err = hostfs.OpenBeneath(v.root.FD(), d.path, flags); err != nil {
		return -1, nil, err
	}
	st, err := hostfs.StatFD(fd)
	if err == nil && st.ID != d.id {
		err = posix.ENOENT
	}
	if err == nil && list {
		var entries []hostfs.Dirent
		entries, err = hostfs.ReadDir(fd)
		names = make([]string, 0, len(entries))
		for _, e := range entries {
			names = append(names, e.Name)
		}
		slices.Sort(names)
	}
	if err != nil {
		_ = hostfs.Close(fd)
		return -1, nil, err
	}
	return fd, names, nil
}

// saw passes on what was seen of names in the directory d behind fd, or, if that
// is negative, what was looked at before. A directory that cannot be looked into
// any more has no more names. It needs mu.
func (v *visitor) saw(d seenDir, fd int, sights []store.Sight) (more bool, err error) {
	s := Seen{Dir: d.id, Path: d.path, FD: fd, Inside: d.inside}
	for i := range sights {
		x := &sights[i]
		if fd < 0 && !x.Looked {
			continue
		}
		st := &x.Stat
		s.Name, s.Stat, s.Content = x.Name, st, x.Content
		if errors.Is(x.Err, posix.ENOENT) {
			s.Stat = nil
		} else if x.Err != nil {
			v.t.hidden = true
			return false, gone(x.Err)
		}
		if err := v.f(&s); err != nil {
			return false, err
		}
		if s.Stat != nil && st.IsDir() {
			_, known := v.t.known[st.ID]
			if !known || len(v.t.names[st.ID]) > 0 {
				v.queue = append(v.queue, seenDir{id: st.ID, path: joinPath(d.path, x.Name), inside: !known})
			}
		}
	}
	return true, nil
}
