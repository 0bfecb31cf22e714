package launch

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// session is one that only asks.
type session struct {
	hear func(api.Event)
	done chan struct{}
	gone chan struct{}
}

func (s *session) Done() <-chan struct{} { return s.done }
func (s *session) Subscribe(f func(api.Event), _ ...api.EventType) func() {
	s.hear = f
	return func() { close(s.gone) }
}
func (s *session) Observe(func(api.Event)) func() { return func() {} }

// desktop puts a notify-send before all others that runs the script, with the file it writes to as $OUT.
func desktop(t *testing.T, script string) (dir, out string) {
	t.Helper()
	dir = t.TempDir()
	out = filepath.Join(dir, "out")
	if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\nOUT="+out+"\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir, out
}

func watched(t *testing.T, mode string, env map[string]string, writable ...string) *session {
	s := &session{done: make(chan struct{}), gone: make(chan struct{})}
	WatchToNotify(s, NotifyOptions{System: "linux", Mode: mode, Getenv: func(k string) string { return cmp.Or(env[k], map[string]string{"PATH": os.Getenv("PATH")}[k]) }, Writable: writable, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		close(s.done)
		if s.hear != nil {
			<-s.gone
		}
	})
	return s
}

func asks(id, message string, at time.Time) api.Event {
	return api.Event{Type: api.EventSafeguardTriggered, At: at, Pending: &api.Pending{ID: id, Message: message}}
}

// The program gets the question as plain text, once for those that come together.
func TestNotification(t *testing.T) {
	_, out := desktop(t, `for a; do printf '[%s]\n' "$a"; done >>$OUT; echo end >>$OUT`)
	s := watched(t, "auto", map[string]string{"DISPLAY": ":0"})
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s.hear(asks("sg_001", "-read <b>/opt</b> & \\074i\\076 \x1b[2J\u202e"+strings.Repeat("x", 5000), at))
	told := func(n int) (text string) {
		t.Helper()
		actortest.Eventually(t, fmt.Sprint(n, " notifications"), func() bool {
			b, _ := os.ReadFile(out)
			text = string(b)
			return strings.Count(text, "\nend\n") == n
		})
		return text
	}
	text := told(1)
	for _, want := range []string{"[--]\n[A decision is needed]\n[-read ‹b›/opt‹/b› ＆ ＼074i＼076 ‹001B›[2J‹202E›xxx", "sandbox approvals]"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if len(text) > 2000 || strings.ContainsAny(text, "<>&\\\x1b") {
		t.Errorf("%q", text)
	}
	s.hear(asks("sg_002", "second", at.Add(time.Second))) // with the first
	for _, id := range []string{"sg_001", "sg_002"} {
		s.hear(api.Event{Type: api.EventSafeguardDecided, Decision: &api.DecideRequest{ID: id}})
	}
	s.hear(asks("sg_003", "third", at.Add(2*time.Second)))
	if text = told(2); strings.Contains(text, "second") || !strings.Contains(text, "third") {
		t.Errorf("%q", text)
	}
	s.hear(asks("sg_004", "fourth", at.Add(2*time.Second+pause)))
	if text = told(3); !strings.Contains(text, "fourth") {
		t.Errorf("%q", text)
	}
}

// A notify-send that hangs holds nobody.
func TestHangingProgram(t *testing.T) {
	_, out := desktop(t, "echo began >>$OUT; exec sleep 600")
	s := watched(t, "auto", map[string]string{"WAYLAND_DISPLAY": "w"})
	at := time.Now()
	for i := range 1000 {
		s.hear(asks(fmt.Sprint("sg_", i), "x", at.Add(time.Duration(i)*pause)))
	}
	actortest.Eventually(t, "the first", func() bool {
		b, _ := os.ReadFile(out)
		return len(b) > 0
	})
}

// Without a desktop, if it is off, or if the program is where programs inside can write, nothing is executed.
func TestNoNotification(t *testing.T) {
	dir, out := desktop(t, "echo ran >>$OUT")
	t.Setenv("PATH", dir) // another one may be installed
	for name, s := range map[string]*session{
		"no desktop": watched(t, "auto", nil),
		"off":        watched(t, "off", map[string]string{"DISPLAY": ":0"}),
		"writable":   watched(t, "auto", map[string]string{"DISPLAY": ":0"}, "/nowhere", filepath.Dir(dir)),
	} {
		if s.hear != nil {
			t.Errorf("%s: it listens", name)
		}
	}
	link := filepath.Join(t.TempDir(), program)
	if err := os.Symlink(filepath.Join(dir, program), link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(link))
	if s := watched(t, "auto", map[string]string{"DISPLAY": ":0"}, dir); s.hear != nil {
		t.Error("a link to where programs inside can write is followed")
	}
	t.Setenv("PATH", ".:bin")
	if s := watched(t, "auto", map[string]string{"DISPLAY": ":0"}); s.hear != nil {
		t.Error("a relative path is searched")
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("it ran")
	}
}
