package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// panes are terminals of a tmux of its own.
type panes struct {
	d      *desk
	tmux   string
	socket string
	env    []string
}

func newPanes(d *desk) *panes {
	p := &panes{d: d, tmux: require.Program(d.t, "tmux", "tmux"), env: append(d.sandbox().Env, "LC_ALL=C.UTF-8", "TMUX=")}
	run, err := os.MkdirTemp("/tmp", "sbt") // short, for the socket's sake
	if err != nil {
		d.t.Fatal(err)
	}
	p.socket = filepath.Join(run, "s")
	d.t.Cleanup(func() {
		_ = p.command("kill-server").Run()
		os.RemoveAll(run)
	})
	return p
}

func (p *panes) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.tmux, append([]string{"-S", p.socket, "-f", "/dev/null", "-u"}, args...)...)
	cmd.Env, cmd.Dir = p.env, p.d.dir
	return cmd
}

func (p *panes) do(args ...string) string {
	p.d.t.Helper()
	out, err := p.command(args...).CombinedOutput()
	if err != nil {
		p.d.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// open makes a terminal in which a shell runs 'sandbox' with the words, and then says how it ended and in which modes it left
// the terminal.
func (p *panes) open(name, width, height, words string) {
	p.d.t.Helper()
	self, err := os.Executable()
	if err != nil {
		p.d.t.Fatal(err)
	}
	script := `stty -a >` + name + `.before; echo "prompt"; "` + self + `" ` + words + `; echo "left with $?"; stty -a >` + name + `.after; echo; exec cat`
	p.do("new-session", "-d", "-s", name, "-x", width, "-y", height, "-c", filepath.Dir(p.d.dir), "sh", "-c", "cd "+filepath.Dir(p.d.dir)+"; "+script)
}

func (p *panes) screen(name string) string {
	p.d.t.Helper()
	return p.do("capture-pane", "-p", "-t", name)
}

// sees waits until one of the texts is on the screen, and returns it.
func (p *panes) sees(name string, texts ...string) (seen string) {
	p.d.t.Helper()
	last := ""
	defer func() {
		if seen == "" {
			p.d.t.Logf("%s does not show %q:\n%s", name, texts, last)
		}
	}()
	actortest.Eventually(p.d.t, strings.Join(texts, " or "), func() bool {
		last = p.screen(name)
		for _, text := range texts {
			if strings.Contains(last, text) {
				seen = text
				return true
			}
		}
		return false
	})
	return seen
}

// answers presses a key until it is taken: it is not while the list has just changed, and the note that says so may be gone
// before it is seen. done names the question, which is on the screen as long as it was not answered.
func (p *panes) answers(name, key, done string) {
	p.d.t.Helper()
	asked := question.FindString(done)
	again := time.Now()
	actortest.Eventually(p.d.t, done, func() bool {
		s := p.screen(name)
		switch {
		case strings.Contains(s, done):
			return true
		case strings.Contains(s, "has just changed"):
			p.do("send-keys", "-t", name, "k") // the note goes
			again = time.Now()
		case strings.Contains(s, asked) && !time.Now().Before(again):
			p.do("send-keys", "-t", name, key)
			again = time.Now().Add(2 * time.Second)
		}
		return false
	})
}

var question = regexp.MustCompile(`sg_\d+`)

// modes are equal before and after.
func (p *panes) restored(name string) {
	p.d.t.Helper()
	base := filepath.Dir(p.d.dir)
	before, err := os.ReadFile(filepath.Join(base, name+".before"))
	if err != nil {
		p.d.t.Fatal(err)
	}
	actortest.Eventually(p.d.t, "the modes", func() bool {
		after, err := os.ReadFile(filepath.Join(base, name+".after"))
		return err == nil && len(after) == len(before)
	})
	after, _ := os.ReadFile(filepath.Join(base, name+".after"))
	if string(before) != string(after) {
		p.d.t.Errorf("%s: the terminal was left in other modes:\n%s\n%s", name, before, after)
	}
	if s := p.screen(name); !strings.Contains(s, "prompt") {
		p.d.t.Errorf("%s: the screen is not as it was:\n%s", name, s)
	}
}

// A command is held in one terminal; in another one a person looks, allows, denies, takes back. What is decided
// elsewhere goes from the list; the end of the session is said.
func TestApprovals(t *testing.T) {
	d := newDesk(t)
	base := filepath.Dir(d.dir)
	for name, text := range map[string]string{"one/x": "of one\n", "two/x": "of two\n", "three/x": "of three\n"} {
		path := filepath.Join(base, "data", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := newPanes(d)
	p.open("person", "100", "30", "approvals -C "+d.dir)
	p.sees("person", "waiting for one", "no session")
	p.open("agent", "100", "30", "run -C "+d.dir+" --gate "+base+"/data --safeguard-timeout 1h -- sh -c '"+
		"cat ../data/one/x >one; cat ../data/two/x >two; cat ../data/three/x >three; cat >/dev/null' </dev/null 2>run.err")
	p.sees("person", "data/one")
	if s := p.screen("person"); !strings.Contains(s, "(for cat)") || !strings.Contains(s, "a allow") || !strings.Contains(s, "WAITING 1") {
		t.Errorf("the screen:\n%s", s)
	}
	p.do("resize-window", "-t", "person", "-x", "40", "-y", "10")
	p.sees("person", "tab history  q leave")
	p.do("resize-window", "-t", "person", "-x", "100", "-y", "30")
	p.answers("person", "a", "Allowed sg_001, for this session.")
	p.sees("person", "data/two")
	p.answers("person", "d", "Denied sg_002")
	p.sees("person", "data/three")
	d.must("approve", "sg_003")
	p.sees("person", "WAITING 0", "has ended")
	p.do("send-keys", "-t", "person", "Tab")
	p.sees("person", "HISTORY 1/3")
	p.sees("person", "has ended", "no session")
	p.do("send-keys", "-t", "person", "q")
	p.sees("person", "left with 0")
	p.restored("person")
	for name, want := range map[string]string{"one": "of one\n", "two": "", "three": "of three\n"} {
		if got, err := os.ReadFile(filepath.Join(d.dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// The terminal is as it was, whatever ends it.
func TestApprovalsLeaveTheTerminal(t *testing.T) {
	d := newDesk(t)
	p := newPanes(d)
	for name, end := range map[string]func(){
		"interrupt": func() { p.do("send-keys", "-t", "interrupt", "C-c") },
		"escape":    func() { p.do("send-keys", "-t", "escape", "Escape") },
		"signal": func() {
			pid := strings.TrimSpace(p.do("display-message", "-p", "-t", "signal", "#{pane_pid}"))
			if out, err := exec.Command("pkill", "-TERM", "-P", pid).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		},
	} {
		p.open(name, "80", "24", "approvals")
		p.sees(name, "q leave")
		end()
		p.sees(name, "left with 0")
		p.restored(name)
	}
	cmd := d.sandbox("approvals")
	out, err := cmd.CombinedOutput()
	if exitOf(t, err) != 1 || !strings.Contains(string(out), "sandbox pending") {
		t.Errorf("without a terminal: %v\n%s", err, out)
	}
}

// An answer that is taken back is asked again while the command runs. A program that calls itself by an escape sequence
// harms nobody's terminal, and a session that is killed is said to have ended.
func TestApprovalsTakeBack(t *testing.T) {
	d := newDesk(t)
	base := filepath.Dir(d.dir)
	if err := os.MkdirAll(filepath.Join(base, "data", "one"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, "data", "one", "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const evil = `printf '\033[2J\033]0;title\007' >/proc/self/comm; while true <../data/one/x; do echo read >>log; read y <../data/one/x; done 2>/dev/null; echo refused >refused; exec sleep 600`
	if err := os.WriteFile(filepath.Join(d.dir, "evil"), []byte(evil), 0o644); err != nil {
		t.Fatal(err)
	}
	p := newPanes(d)
	p.open("person", "100", "30", "approvals")
	run := d.sandbox("run", "--caches", "read-only", "--home", "read-only", "--gate", base+"/data", "--safeguard-timeout", "1h", "--", "bash", "evil")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = run.Process.Kill()
		_ = run.Wait()
	}()
	p.sees("person", "data/one")
	if s := p.screen("person"); !strings.Contains(s, `\x1b[2J`) || !strings.Contains(s, "bash evil") {
		t.Errorf("the screen:\n%s", s)
	}
	p.answers("person", "a", "Allowed sg_001")
	actortest.Eventually(t, "the read", func() bool {
		_, err := os.Stat(filepath.Join(d.dir, "log"))
		return err == nil
	})
	p.do("send-keys", "-t", "person", "Tab")
	p.sees("person", "HISTORY 1")
	p.answers("person", "u", "sg_001 was taken back")
	p.do("send-keys", "-t", "person", "Tab")
	p.sees("person", "sg_002") // once the kernel's cache has ended
	p.answers("person", "d", "Denied sg_002")
	actortest.Eventually(t, "the refusal", func() bool {
		_, err := os.Stat(filepath.Join(d.dir, "refused"))
		return err == nil
	})
	_ = run.Process.Kill()
	p.sees("person", "has ended")
	p.do("send-keys", "-t", "person", "q")
	p.sees("person", "left with 0")
	p.restored("person")
}
