package jail

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// remade looks which hidden paths there are inside all the same: in an overlay, what is hidden is missing, and programs can make it anew.
type remade struct {
	once  sync.Once
	root  *os.File // of the view; nil if it cannot be had
	paths []string // that are missing in the view before anything runs there
}

// Remade implements [hypervisor.Concealing]. It is first called before anything runs. Nothing is looked up behind gates, where a look can be a question to a person.
func (g *guest) Remade() (there []string) {
	r := &g.remade
	r.once.Do(func() {
		if len(g.plan.secret) == 0 || g.promoted != nil {
			return
		}
		if r.root, _ = os.OpenFile("/proc/"+strconv.Itoa(g.pid1.PID)+"/root", unix.O_PATH|unix.O_DIRECTORY, 0); r.root != nil {
			r.paths = slices.DeleteFunc(slices.Clone(g.plan.secret), r.has)
		}
	})
	for _, path := range r.paths {
		if r.has(path) {
			there = append(there, path)
		}
	}
	return there
}

// has tells whether there is something at a path of the view. Programs inside choose what is on the way: a symlink of theirs does not lead out of
// the view, and nothing is opened.
func (r *remade) has(path string) bool {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(int(r.root.Fd()), strings.TrimPrefix(path, "/"), &how)
	if err != nil {
		return false
	}
	_ = unix.Close(fd) // it reads and writes nothing
	return true
}

func (r *remade) close() {
	r.once.Do(func() {})
	if r.root != nil {
		_ = r.root.Close()
	}
}
