package jsonl

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestConversations holds every conversation in testdata with the real program.
// With -update what it says is written down instead.
func TestConversations(t *testing.T) {
	for _, tr := range readTranscripts(t) {
		t.Run(tr.name(), func(t *testing.T) {
			t.Parallel()
			if tr.name() == "start" { // its session has a network
				require.TUN(t)
			}
			p := newPlayer(t, tr)
			for _, b := range tr.blocks() {
				p.play(b)
			}
			p.finish()
			if *update && !t.Failed() {
				tr.lines = p.said
				tr.write(t)
			}
		})
	}
}

// player holds one conversation.
type player struct {
	t      *testing.T
	tr     *transcript
	box    *drive.Sandbox
	places places
	client *Client
	cmd    *exec.Cmd
	// came are the messages of the running program, in order; said is the
	// conversation, in order.
	came []string
	said []line
}

func newPlayer(t *testing.T, tr *transcript) *player {
	t.Helper()
	p := &player{t: t, tr: tr, box: drive.New(t, nil)}
	base, home := filepath.Dir(p.box.Dir), filepath.Join(p.box.State, "home")
	lib := filepath.Join(base, "lib")
	p.places = places{
		{p.box.Dir, "/home/me/project"}, {lib, "/home/me/lib"},
		{filepath.Join(home, "state", "sandbox", "undo", "work"), "/home/me/.local/state/sandbox/undo/project"},
		{filepath.Join(home, "state"), "/home/me/.local/state"}, {home, "/home/me"},
		{freePort(t), "17613"},
	}
	for _, dir := range []string{lib, filepath.Join(home, "config", "codeagent")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range tr.archive.Files {
		to := ""
		switch dir, rest, _ := strings.Cut(f.Name, "/"); {
		case dir == "project" && rest != "":
			to = filepath.Join(p.box.Dir, rest)
		case dir == "lib" && rest != "":
			to = filepath.Join(lib, rest)
		case f.Name == "config.toml":
			to = filepath.Join(home, "config", "codeagent", "codeagent.toml")
		case f.Name == "flags" || f.Name == conversation:
			continue
		default:
			t.Fatalf("%s: %s is nothing that a conversation has", tr.file, f.Name)
		}
		put(t, to, f.Data)
	}
	p.start()
	return p
}

// put writes a file whose mode does not depend on the umask.
func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
}

// freePort is a port of the loopback that nobody has: of two runs on one machine each
// has its own.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}

// start starts the program. What a status says of the bridge should not depend on the kernel.
func (p *player) start() {
	p.t.Helper()
	args := append([]string{"serve", "--protocol", "stdio", "--bridge", "fuse"}, strings.Fields(p.places.real(p.tr.section("flags")))...)
	p.cmd = p.box.Bare(p.t.Context(), args...)
	p.came = nil
	p.client = Start(p.t, p.cmd)
	p.client.Keep(func(text string) { p.came = append(p.came, p.places.normal(text)) })
}

// play does what a block says and compares, or writes down, what comes of it.
func (p *player) play(b *block) {
	p.t.Helper()
	wait := b.wait
	requests := map[string]string{}
	for _, l := range b.do {
		switch l.kind {
		case '>':
			if id := idOf(l.text); id != "" {
				requests[id] = l.text
				p.client.Expect(id, typeOf(l.text))
				if b.wait == nil {
					wait = []string{id}
				}
			}
			if err := p.client.SendRaw(p.places.real(l.text)); err != nil {
				p.t.Fatal(err)
			}
		case '$':
			p.shell(l.text)
		case '!':
			p.control(l.text)
		}
	}
	p.said = append(p.said, b.keep...)
	if *update {
		for _, l := range p.collect(wait) {
			p.said = append(p.said, l)
			p.judge(requests, l.text)
		}
		return
	}
	for _, l := range b.want {
		p.said = append(p.said, l)
		m := p.client.take(l.text, func(m Message) bool { return p.places.normal(m.Line) == l.text })
		p.judge(requests, m.Line)
	}
}

// judge checks that a request which was carried out was as its schema says.
func (p *player) judge(requests map[string]string, message string) {
	p.t.Helper()
	var m Message
	if err := json.Unmarshal([]byte(message), &m); err != nil {
		p.t.Fatal(err)
	}
	if m.OK() {
		if sent := requests[*m.RequestID]; sent != "" {
			p.client.mu.Lock()
			p.client.validate(typeOf(sent)+".request", []byte(sent))
			p.client.mu.Unlock()
		}
	}
}

// collect waits for what is named and takes everything that has come.
func (p *player) collect(wait []string) []line {
	p.t.Helper()
	if len(wait) > 0 {
		p.client.until(strings.Join(wait, ", "), func(messages []Message) bool {
			left := slices.Clone(wait)
			for _, m := range messages {
				name := m.Type
				if m.Type == "response" && m.RequestID != nil {
					name = *m.RequestID
				}
				if i := slices.Index(left, name); i >= 0 {
					left = slices.Delete(left, i, i+1)
				}
			}
			return len(left) == 0
		})
	}
	var lines []line
	for _, m := range p.client.Rest() {
		lines = append(lines, line{'<', p.places.normal(m.Line)})
	}
	return lines
}

func (p *player) shell(script string) {
	p.t.Helper()
	cmd := exec.Command("sh", "-ec", p.places.real(script))
	cmd.Dir = p.box.Dir
	cmd.Env = append(os.Environ(), "GUEST="+strings.Join(children(p.cmd.Process.Pid), " "))
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("$ %s: %v: %s", script, err, out)
	}
}

// children are the processes that a process has started.
func children(pid int) []string {
	var all []string
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range tasks {
		b, _ := os.ReadFile(file)
		all = append(all, strings.Fields(string(b))...)
	}
	return all
}

func (p *player) control(what string) {
	p.t.Helper()
	switch what {
	case "start":
		p.start()
	case "kill":
		if err := p.cmd.Process.Kill(); err != nil {
			p.t.Fatal(err)
		}
		p.client.WaitEnd()
	case "close":
		p.client.Close()
		p.client.WaitEnd()
	default:
		p.t.Fatalf("! %s: start, kill or close", what)
	}
}

// finish hangs up and judges the whole.
func (p *player) finish() {
	p.t.Helper()
	p.client.Close()
	p.client.WaitEnd()
	var all []string
	for _, l := range p.said {
		if l.kind == '<' {
			all = append(all, l.text)
		}
	}
	for _, m := range p.client.Rest() {
		text := p.places.normal(m.Line)
		// The kernel may tell of one edit in two parts, and on a busy machine so
		// late that our own changes are taken for somebody else's.
		if m.Type == "event.external_modification" {
			continue
		}
		p.t.Errorf("not in the conversation: %s", text)
	}
	ids := map[string]bool{}
	for _, l := range p.said {
		if id := idOf(l.text); l.kind == '>' && id != "" {
			ids[id] = true
		}
	}
	for id := range ids {
		about := func(list []string) (some []string) {
			for _, text := range list {
				if idOf(text) == id && !unordered(text) {
					some = append(some, text)
				}
			}
			return some
		}
		have, want := about(p.came), about(all)
		want = want[max(0, len(want)-len(have)):] // of the last start
		if !slices.Equal(have, want) {
			p.t.Errorf("the messages about request %s came in another order:\n%s", id, strings.Join(have, "\n"))
		}
	}
	p.box.CheckResidue(p.t)
}
