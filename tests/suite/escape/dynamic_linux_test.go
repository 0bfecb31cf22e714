package escape

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// dynamic makes a session hold what programs do not need; home is the home directory.
func dynamic(home string, b hypervisor.Bridge, c *api.Config) {
	c.Dynamic, c.Bridge = true, b
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
func TestDynamicHome(t *testing.T) { overBridges(t, dynamicHome) }

func dynamicHome(t *testing.T, b hypervisor.Bridge) {
	l := newLab(t, func(l *lab, c *api.Config) {
		l.share = true
		dynamic(l.home, b, c)
		put(t, l.home+"/notes/a", "first")
		for i := range aged {
			put(t, fmt.Sprint(l.home, "/notes/old", i), "old")
		}
		put(t, l.home+"/letter", "for nobody")
		put(t, l.home+"/.ssh/id", treasure)
		put(t, l.home+"/.gitconfig", "settings")
		put(t, l.home+"/.config/tool/rc", "tool's")
		if os.Getuid() == 0 { // only its owner can write to it
			for i := range aged {
				must(t, os.Chown(fmt.Sprint(l.home, "/notes/old", i), jail.AnonymousUID, jail.AnonymousUID))
			}
			for _, path := range []string{"", "notes", "notes/a", "letter", ".gitconfig", ".config", ".config/tool", ".config/tool/rc"} {
				must(t, os.Chown(filepath.Join(l.home, path), jail.AnonymousUID, jail.AnonymousUID))
			}
		}
	})
	held := l.start("sh", "-c", "cat ~/notes/a; echo; echo done; read x; cat ~/notes/a")
	// Who writes beside it does not wait.
	l.works("echo new >~/.new && cat ~/.new && mkdir -p ~/.config/new && test -e ~/letter && ls -a ~ | grep -q new")
	note := l.decide(l.home+"/notes", true)
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
	dynamicAttributes(l, note)
	for _, path := range []string{".new", ".config/new", "notes/b"} {
		if _, err := os.Lstat(filepath.Join(l.home, path)); err == nil {
			t.Errorf("%s was written on the host", path)
		}
	}
}

// aged is how many files dynamicAttributes can use up.
const aged = 200

// dynamicAttributes: attributes are set in the overlay where the answer allows it, and nowhere else. When the answer, note, is taken back,
// a call for them fails or is held, and whoever reads afterwards asks.
func dynamicAttributes(l *lab, note string) {
	t := l.t
	t.Helper()
	before := treesnap.MustTake(t, l.home+"/notes")
	l.works("cat ~/notes/old* >/dev/null; touch -d 2001-02-03 ~/notes/old0 && chmod 600 ~/notes/old0 && stat -c %a,%y ~/notes/old0 | grep ^600,2001 && chmod 700 ~/notes")
	for _, path := range []string{"/letter", "/later", "/.ssh", "/.ssh/id"} {
		l.refused(program+" attack attributes "+l.home+path, treasure)
	}
	must(t, l.TakeBack(t.Context(), api.TakeBackRequest{ID: note, By: "test"}))
	again := l.start("sh", "-c", "i=1; while touch -c ~/notes/old$i; do i=$((i+1)); sleep 0.05; done; echo refused; cat ~/notes/old$i")
	if l.bridge == hypervisor.BridgeFUSE {
		l.decide(l.home+"/notes", false)
		again.expect("refused", patience)
	} else { // nobody can be asked for who looks from outside
		again.expect("denied\nrefused", patience)
		l.decide(l.home+"/notes", true)
		again.expect("old", patience)
	}
	again.wait()
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, l.home+"/notes"))
}

// TestDynamicEscape: a view that asks withstands what the others do. Nobody answers, so that nothing is allowed.
func TestDynamicEscape(t *testing.T) { overBridges(t, dynamicEscape) }

func dynamicEscape(t *testing.T, b hypervisor.Bridge) {
	p := newPrey(t, func(c *api.Config) {
		dynamic(filepath.Dir(c.Directories[0].Path), b, c)
		c.Safeguards.Timeout = 1 // nanosecond
		c.Places.Home = false    // else what is written beside the folder is written, and goes with the session
	})
	p.attempt(t, attempts, "")
	p.unharmed(t)
}

// TestDynamicFolder: behind gates, commands change their folder by whatever path leads there, and what the home directory has in
// memory, and nobody is asked; what lies beside the folder can be neither changed nor seen by a call that the supervisor answers.
func TestDynamicFolder(t *testing.T) { overBridges(t, dynamicFolder) }

func dynamicFolder(t *testing.T, b hypervisor.Bridge) {
	l := newLab(t, func(l *lab, c *api.Config) {
		l.share = true
		c.Safeguards.Timeout = 1 // nanosecond: who asks is refused
		c.Dynamic, c.Bridge, c.Gates = true, b, []string{l.home}
		put(t, l.home+"/beside/a", treasure)
		must(t, os.Chmod(l.home+"/beside", 0o777))
		must(t, os.Chmod(l.home+"/beside/a", 0o666))
		put(t, l.work+"/in/a", "first")
	})
	name := filepath.Base(l.home)
	l.works("test -w " + l.work + " && cd in && echo 2 >>" + l.work + "/in/a && echo 3 >../in/b && echo 4 >../../work/in/c && touch -d 2001-02-03 " + l.work + "/in/c" +
		" && chmod 600 ../../../" + name + "/work/in/c && ln -s " + l.work + "/in ../link && echo 5 >../link/d && mv " + l.work + "/link/d " + l.work + "/e" +
		" && mkdir -p " + l.work + "/x/y && chmod 700 " + l.work + " && chmod 755 . ../. && ln " + l.work + "/e ../f && rm ../e && test -z \"$(find .. -name '?' -type f ! -writable)\"")
	for path, want := range map[string]string{"in/a": "first2\n", "in/b": "3\n", "in/c": "4\n", "f": "5\n"} {
		if data, err := os.ReadFile(filepath.Join(l.work, path)); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
	witness := treesnap.MustTake(t, l.home+"/beside")
	l.works("ln -s ../../beside/a in/out; ln -s " + l.home + "/beside out")
	for _, path := range []string{l.home + "/beside/a", "../beside/a", "in/out", "out/a", l.work + "/../beside/a"} {
		for _, call := range []string{program + " attack attributes ", "echo no >>", "touch ", "chmod 600 ", "truncate -s 0 ", "rm ", "ln -f f ", "cat "} {
			if link := path == "in/out"; !link || call != "rm " && call != "ln -f f " { // the link itself is the folder's
				l.refused(call+path, treasure)
			}
		}
	}
	treesnap.AssertEqual(t, witness, treesnap.MustTake(t, l.home+"/beside"))
	undoAll(t, l)
}

// setAttributes sets all that can be set of a file without opening it, and fails if nothing could be.
func setAttributes(args []string) error {
	path := args[0]
	for name, call := range map[string]func() error{
		"chmod":       func() error { return unix.Chmod(path, 0o600) },
		"fchmodat":    func() error { return unix.Fchmodat(unix.AT_FDCWD, path, 0o644, 0) },
		"chown":       func() error { return unix.Chown(path, os.Getuid(), -1) },
		"utimensat":   func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, path, nil, 0) },
		"utimes":      func() error { return unix.Utimes(path, []unix.Timeval{{Sec: 1}, {Sec: 2}}) },
		"setxattr":    func() error { return unix.Setxattr(path, "user.a", []byte("b"), 0) },
		"removexattr": func() error { return unix.Removexattr(path, "user.a") },
		"truncate":    func() error { return unix.Truncate(path, 0) },
	} {
		if call() == nil {
			fmt.Println(name, "succeeded")
			return nil
		}
	}
	return errors.New("nothing could be set")
}
