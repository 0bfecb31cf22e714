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
// which has one directory open at a time. The lock is taken once for most
// directories: there are thousands, and each sleep on it costs more than one.
type visitor struct {
	t    *touched
	root *hostfs.Root
	f    func(*seenName) error

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
	fd, names, err := v.open(d)
	if err != nil {
		v.mu.Lock()
		v.fail(gone(err))
		return
	}
	defer hostfs.Close(fd)
	for first := true; first || len(names) > 0; first = false {
		if !first {
			v.mu.Unlock()
		}
		some := names[:min(len(names), 128)]
		names = names[len(some):]
		stats, errs := make([]hostfs.Stat, len(some)), make([]error, len(some))
		for i, name := range some {
			stats[i], errs[i] = hostfs.StatAt(fd, name)
		}
		v.mu.Lock()
		if more, err := v.saw(d, fd, some, stats, errs); err != nil || !more {
			v.fail(err)
			return
		}
	}
}

// open opens a directory and says which names in it are of interest.
func (v *visitor) open(d seenDir) (fd int, names []string, err error) {
	names, flags := v.t.names[d.id], unix.O_PATH|unix.O_DIRECTORY
	if d.inside {
		flags = unix.O_RDONLY | unix.O_DIRECTORY
	}
	if fd, err = hostfs.OpenBeneath(v.root.FD(), d.path, flags); err != nil {
		return -1, nil, err
	}
	st, err := hostfs.StatFD(fd)
	if err == nil && st.ID != d.id {
		err = unix.ENOENT
	}
	if err == nil && d.inside {
		var entries []hostfs.Dirent
		entries, err = hostfs.ReadDir(fd)
		names = make([]string, 0, len(entries))
		for _, e := range entries {
			names = append(names, e.Name)
		}
	}
	if err != nil {
		_ = hostfs.Close(fd)
		return -1, nil, err
	}
	slices.Sort(names)
	return fd, slices.Compact(names), nil
}

// saw passes on what was seen of names in the directory d behind fd. A directory
// that cannot be looked into any more has no more names. It needs mu.
func (v *visitor) saw(d seenDir, fd int, names []string, stats []hostfs.Stat, errs []error) (more bool, err error) {
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
