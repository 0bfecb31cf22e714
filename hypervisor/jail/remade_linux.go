package jail

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/messages/lexical"
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

// Conceals implements [hypervisor.Concealing].
func (g *guest) Conceals(path string) (hidden string, readable bool) {
	path, hidden = Concealed(path, g.plan.secret)
	if hidden != "" && slices.Contains(g.Remade(), hidden) && g.remade.has(path) {
		return "", false // it is a program's own
	}
	var st unix.Stat_t
	return hidden, !g.user.ByRoot || unix.Stat(path, &st) == nil && g.user.Bits(&st)&4 != 0
}

// Concealed returns which of hidden paths, resolved, an absolute path is or lies in, and the path resolved. There is none if nothing is there.
func Concealed(path string, hidden []string) (resolved, in string) {
	resolved = places.ResolveMount(path)
	i := slices.IndexFunc(hidden, func(h string) bool { return lexical.Within(resolved, h) })
	if i < 0 {
		return resolved, ""
	}
	if _, err := os.Lstat(resolved); err != nil {
		return resolved, ""
	}
	return resolved, hidden[i]
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
