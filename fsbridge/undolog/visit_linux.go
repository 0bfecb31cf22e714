package undolog

import (
	"errors"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// each calls f for 0 to n-1, on a few goroutines at once: the kernel serves
// several directories side by side.
func each(n int, f func(i int)) {
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	for range min(workers(), n) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	wg.Wait()
}

func workers() int { return min(max(2, runtime.GOMAXPROCS(0)), 4) }

type seenDir struct {
	id     hostfs.ID
	path   string
	inside bool
}

// visitor is one walk through what was touched, by several goroutines, each of
// which has one directory open at a time.
type visitor struct {
	t    *touched
	root *hostfs.Root
	f    func(*seenName) error

	mu    sync.Mutex // f is called with it held
	cond  sync.Cond
	queue []seenDir
	done  map[hostfs.ID]bool
	busy  int
	err   error
}

// visit calls f for every touched name in the directories that are still in
// the folder, and for everything in the directories that were made. Which
// directories those are follows from what is found under the touched names,
// beginning at the root: nothing is looked up by an old path. The calls come
// from several goroutines, one at a time and in no order.
func (t *touched) visit(root *hostfs.Root, f func(*seenName) error) error {
	v := &visitor{t: t, root: root, f: f, queue: []seenDir{{id: root.ID()}}, done: map[hostfs.ID]bool{}}
	v.cond.L = &v.mu
	each(workers(), func(int) { v.work() })
	return v.err
}

func (v *visitor) work() {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer v.cond.Broadcast()
	for {
		for len(v.queue) == 0 && v.busy > 0 && v.err == nil {
			v.cond.Wait()
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
		v.mu.Unlock()
		err := v.visitDir(d)
		v.mu.Lock()
		v.busy--
		if err != nil && v.err == nil {
			v.err = err
		}
		v.cond.Broadcast()
	}
}

// visitDir visits one directory and queues those below it that are of
// interest. A directory that went away meanwhile is left out.
func (v *visitor) visitDir(d seenDir) error {
	names, flags := v.t.names[d.id], unix.O_PATH|unix.O_DIRECTORY
	if d.inside {
		flags = unix.O_RDONLY | unix.O_DIRECTORY
	}
	fd, err := hostfs.OpenBeneath(v.root.FD(), d.path, flags)
	if err != nil {
		return gone(err)
	}
	defer hostfs.Close(fd)
	if st, err := hostfs.StatFD(fd); err != nil || st.ID != d.id {
		return gone(err)
	}
	if d.inside {
		entries, err := hostfs.ReadDir(fd)
		if err != nil {
			return gone(err)
		}
		names = make([]string, 0, len(entries))
		for _, e := range entries {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for chunk := range slices.Chunk(names, 128) {
		if more, err := v.visitNames(d, fd, chunk); err != nil || !more {
			return err
		}
	}
	return nil
}

// visitNames looks at names in the directory d behind fd without a lock, and
// then passes on what it saw. A directory that cannot be looked into any more
// has no more names.
func (v *visitor) visitNames(d seenDir, fd int, names []string) (more bool, err error) {
	stats := make([]hostfs.Stat, len(names))
	errs := make([]error, len(names))
	for i, name := range names {
		stats[i], errs[i] = hostfs.StatAt(fd, name)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	s := seenName{Dir: d.id, Path: d.path, FD: fd, Inside: d.inside}
	for i, name := range names {
		st := &stats[i]
		s.Name, s.Stat = name, st
		if errors.Is(errs[i], unix.ENOENT) {
			s.Stat = nil
		} else if errs[i] != nil {
			return false, gone(errs[i])
		}
		if err := v.f(&s); err != nil {
			return false, err
		}
		if s.Stat != nil && st.IsDir() {
			_, known := v.t.known[st.ID]
			if !known || len(v.t.names[st.ID]) > 0 {
				v.queue = append(v.queue, seenDir{id: st.ID, path: joinPath(d.path, name), inside: !known})
			}
		}
	}
	return true, nil
}
