package escape

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/messages"
)

// dynamic makes a session hold what programs do not need; home is the home directory.
func dynamic(home string, c *api.Config) {
	c.Dynamic, c.Bridge = true, hypervisor.BridgeFUSE
	c.Places = hypervisor.Places{Store: filepath.Join(home, "store"), Home: true}
	c.Safeguards.Timeout = patience
}

// decide answers the next question, which is about path, and returns its id.
func (l *lab) decide(path string, allow bool) (id string) {
	l.t.Helper()
	for e := range l.events {
		if e.Type != api.EventSafeguardTriggered {
			continue
		}
		if e.Pending.Kind != messages.KindGate || !strings.HasPrefix(e.Pending.Message, "read "+path+" ") {
			l.t.Fatalf("asked: %s", e.Pending.Message)
		}
		must(l.t, l.Decide(l.t.Context(), api.DecideRequest{ID: e.Pending.ID, Allow: allow, By: "test"}))
		return e.Pending.ID
	}
	panic("unreachable: the events never end")
}

// TestDynamicHome: what lies in the home directory is held until somebody allows it, also what is put there later; names
// that programs write do not wait for that, nor reach the host; and what the host replaces stays readable.
func TestDynamicHome(t *testing.T) {
	l := newLab(t, func(l *lab, c *api.Config) {
		l.share = true
		dynamic(l.home, c)
		put(t, l.home+"/notes/a", "first")
		put(t, l.home+"/letter", "for nobody")
		put(t, l.home+"/.ssh/id", treasure)
		put(t, l.home+"/.gitconfig", "settings")
		put(t, l.home+"/.config/tool/rc", "tool's")
		if os.Getuid() == 0 { // only its owner can write to it
			for _, path := range []string{"", "notes", "notes/a", "letter", ".gitconfig", ".config", ".config/tool", ".config/tool/rc"} {
				must(t, os.Chown(filepath.Join(l.home, path), jail.AnonymousUID, jail.AnonymousUID))
			}
		}
	})
	held := l.start("sh", "-c", "cat ~/notes/a; echo; echo done; read x; cat ~/notes/a")
	// Who writes beside it does not wait.
	l.works("echo new >~/.new && cat ~/.new && mkdir -p ~/.config/new && test -e ~/letter && ls -a ~ | grep -q new")
	l.decide(l.home+"/notes", true)
	held.expect("done", patience)
	// As an editor does it.
	must(t, os.WriteFile(l.home+"/notes/.a.new", []byte("second"), 0o644))
	must(t, os.Rename(l.home+"/notes/.a.new", l.home+"/notes/a"))
	l.works("until test \"$(cat ~/notes/a)\" = second; do sleep 0.1; done; echo third >~/notes/b; cat ~/notes/b ~/notes/a")
	held.say("")
	held.expect("second", patience)

	letter := l.start("sh", "-c", "cat ~/letter; cat ~/letter; cat ~/.ssh/id; cat ~/.gitconfig; cat ~/.config/none")
	l.decide(l.home+"/letter", false)
	letter.expect("settings", patience)
	if out := letter.out.buf.String(); strings.Contains(out, "nobody") || strings.Contains(out, treasure) {
		t.Error(out)
	}
	put(t, l.home+"/later", treasure)
	later := l.start("cat", l.home+"/later")
	l.decide(l.home+"/later", false)
	later.expect("denied", patience)
	tool := l.start("cat", l.home+"/.config/tool/rc")
	l.decide(l.home+"/.config/tool", true)
	tool.expect("tool's", patience)
	for _, path := range []string{".new", ".config/new", "notes/b"} {
		if _, err := os.Lstat(filepath.Join(l.home, path)); err == nil {
			t.Errorf("%s was written on the host", path)
		}
	}
}

// TestDynamicEscape: a view that asks withstands what the others do. Nobody answers, so that nothing is allowed.
func TestDynamicEscape(t *testing.T) {
	p := newPrey(t, func(c *api.Config) {
		dynamic(filepath.Dir(c.Directories[0].Path), c)
		c.Safeguards.Timeout = 1 // nanosecond
		c.Places.Home = false    // else what is written beside the folder is written, and goes with the session
	})
	p.attempt(t, attempts, "")
	p.unharmed(t)
}
