package gate

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/messages/lexical"
)

// MaxPromoted is how many directories of a mount have mounts of their own at once. What is opened then is served by the gate.
const MaxPromoted = 1024

// promote has a directory that was allowed mounted, once, while the lookup that found it is answered. The node is fresh if
// another directory had that name before: the kernel must not take it for that one, over which something is mounted.
func (n *node) promote(st *unix.Stat_t) {
	v := n.v
	if v.m.Promote == nil || v.m.Lower || st.Mode&unix.S_IFMT != unix.S_IFDIR || v.conceals(n.path, st.Dev) {
		return
	}
	this := id{st.Dev, st.Ino}
	v.mu.Lock()
	before, known := v.promoted[n.path]
	if known && before == this || !known && len(v.promoted) >= MaxPromoted {
		v.mu.Unlock()
		return
	}
	n.fresh = known
	v.promoted[n.path] = this
	v.mu.Unlock()
	at, errno := n.file()
	if errno != 0 {
		return
	}
	own, err := unix.FcntlInt(uintptr(at), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return
	}
	dir := os.NewFile(uintptr(own), n.path)
	go func() { // the kernel must have the answer first
		defer dir.Close()
		if err := v.m.Promote(n.path, own); err != nil && v.g.o.Unpromoted != nil {
			v.g.o.Unpromoted(n.path, err)
		}
	}()
}

// demote notes that a path is refused: the kernel drops what is mounted there.
func (n *node) demote() {
	n.v.mu.Lock()
	defer n.v.mu.Unlock()
	delete(n.v.promoted, n.path)
}

// conceals reports whether something that is hidden could be seen in a mount of the directory: it lies there, or may have
// another name there.
func (v *view) conceals(dir string, dev uint64) bool {
	for _, h := range v.m.Hidden {
		path := filepath.Join(v.g.o.Path, h)
		if lexical.Below(path, dir) {
			return true
		}
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 && st.Dev == dev {
			return true
		}
	}
	return false
}
