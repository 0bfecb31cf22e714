package jail

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/script"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/messages/lexical"
)

// promise is what must fail inside. PID 1 tries it when the view is complete and it has no rights any more than commands
// have, before Landlock and the filter, which would hide that a mount is missing. If it does not fail, PID 1 ends.
type promise struct {
	text   string // what does not hold
	path   string
	kind   promiseKind
	served bool // the path leads through a bridge
}

// promiseKind says how a [promise] is tried.
type promiseKind string

const (
	unread     promiseKind = "unread"     // opened for reading
	unwritten  promiseKind = "unwritten"  // a file, opened for writing
	unextended promiseKind = "unextended" // a directory in which a file without a name is made
	unanswered promiseKind = "unanswered" // a socket that is connected to
)

// promises are those of a view whose mounts are complete.
func (p *planner) promises() (out []promise) {
	for _, h := range p.secret {
		if slices.Contains(p.shares[:len(p.cfg.Shares)], h) || p.asks(h) {
			continue
		}
		if h = p.witness(h); h == "" {
			continue
		}
		made := promise{text: h + " is to be hidden, and can be read inside", path: h, kind: unread, served: p.inShare(h)}
		if isSocket(h) {
			made.text, made.kind = h+" is a socket of the host, and can be connected to inside", unanswered
		}
		out = append(out, made)
	}
	return append(out, p.sealedPlaces()...)
}

// asks returns whether a look at a path may be a question to a person.
func (p *planner) asks(path string) bool {
	for i := len(p.cfg.Shares); i < len(p.shares); i++ {
		if in := p.innermost(path); in != nil && in.gate && lexical.Within(path, p.shares[i]) && !p.uncovered(path) {
			return true
		}
	}
	return false
}

// witness is the path at which it is tried whether h is hidden: h itself, but where an empty directory stands for it because
// a working folder lies there. Then it is something of the host's in it, or empty if there is nothing.
func (p *planner) witness(h string) string {
	if !slices.ContainsFunc(p.out, func(m mount) bool {
		return lexical.Below(m.path, h) || m.path == h && (m.op == opTmpfs || m.op == opDir)
	}) ||
		slices.ContainsFunc(p.out, func(m mount) bool { return m.path == h && m.op == opHideDir }) {
		return h
	}
	entries, _ := os.ReadDir(h)
	for _, e := range entries {
		path := filepath.Join(h, e.Name())
		if !slices.ContainsFunc(p.out, func(m mount) bool {
			return lexical.Within(m.path, path) || m.op != opTmpfs && m.path != h && lexical.Within(path, m.path)
		}) {
			return path
		}
	}
	return ""
}

// sealedPlaces are the promises about what is shown read-only.
func (p *planner) sealedPlaces() (out []promise) {
	add := func(path string) {
		made := promise{text: path + " is to be read-only, and can be written inside", path: path, kind: unwritten}
		if p.concealed(path) {
			return
		}
		if isDir(path) {
			made.kind = unextended
		} else if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
			return
		}
		out = append(out, made)
	}
	for _, dir := range []string{"/", "/etc", "/usr", p.user.Home} {
		if dir == "/" || !p.isCovered(dir) && !slices.ContainsFunc(p.out, func(m mount) bool { return lexical.Within(dir, m.path) }) {
			add(dir)
		}
	}
	for i, m := range p.out {
		over := func(later mount) bool { return lexical.Within(m.path, later.path) }
		if m.op == opBind || m.op == opNoExec || m.op == opFolder || m.op == opOverlay && m.readOnly {
			if !slices.ContainsFunc(p.out[i+1:], over) {
				add(m.path)
			}
		}
	}
	return out
}

func isSocket(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// forged removes the promises about what hides in an overlay and was made anew in a session before: that is seen then, and is not the host's.
func (p *plan) forged(m *mount) {
	if m.session {
		return
	}
	p.promises = slices.DeleteFunc(p.promises, func(made promise) bool {
		if !slices.Contains(m.masked, made.path) {
			return false
		}
		_, err := os.Lstat(filepath.Join(m.layers.Dir, places.UpperDir, strings.TrimPrefix(made.path, m.path)))
		return err == nil
	})
}

// sunPath is how long the path of a socket may be.
const sunPath = 107

// prove tries what the view promises.
func (v *viewWriter) prove() {
	socket := uintptr(0)
	for _, m := range v.plan.promises {
		if m.served {
			v.awaitServed(m.text)
		}
		var c *script.Call
		const quiet = unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
		switch m.kind {
		case unread:
			c = v.Call(m.text, unix.SYS_OPENAT, script.Cwd, v.Text(m.path), unix.O_RDONLY|quiet)
		case unwritten:
			c = v.Call(m.text, unix.SYS_OPENAT, script.Cwd, v.Text(m.path), unix.O_WRONLY|quiet)
		case unextended:
			c = v.Call(m.text, unix.SYS_OPENAT, script.Cwd, v.Text(m.path), unix.O_WRONLY|unix.O_TMPFILE|quiet, 0o600)
		case unanswered:
			if len(m.path) > sunPath {
				continue
			}
			if socket == 0 {
				socket = v.Open("a socket", unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			}
			address := append([]byte{unix.AF_UNIX, 0}, m.path...) // little endian
			c = v.Call(m.text, unix.SYS_CONNECT, socket, v.Bytes(address), uintptr(len(address)+1))
		}
		c.Fails = true
	}
	if socket != 0 {
		v.Close(socket)
	}
}

// broken returns a promise that did not hold when it was tried, or nil.
func broken(err error) error {
	if failed := (*script.Error)(nil); errors.As(err, &failed) && failed.Err == 0 {
		return failed
	}
	return nil
}

// notItself returns an error if something that was named is to be hidden and is a working folder, too.
func notItself(cfg hypervisor.Config, folders []string, resolve func(string) string) error {
	for _, h := range cfg.Hide {
		if slices.Contains(folders, resolve(h)) {
			return errors.New("jail: " + h + " is to be hidden, and is a working folder, too")
		}
	}
	return nil
}
