package approvals

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/texts"
	"github.com/codeagent/sandbox/messages"
)

// desk is a model with a person in front of it.
type desk struct {
	t       *testing.T
	m       *model
	now     time.Time
	decided []string
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, now: time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)}
	d.m = newModel(actions{
		decide: func(session string, r api.DecideRequest, done string) tea.Cmd {
			d.decided = append(d.decided, fmt.Sprintf("%s %s allow=%t %s %s %s", session, r.ID, r.Allow, r.Scope, r.For, r.By))
			return func() tea.Msg { return outcome{text: done} }
		},
		takeBack: func(session string, r api.TakeBackRequest, done string) tea.Cmd {
			d.decided = append(d.decided, fmt.Sprintf("%s %s back %s", session, r.ID, r.By))
			return func() tea.Msg { return outcome{text: done} }
		},
	}, func() time.Time { return d.now })
	d.m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	return d
}

func (d *desk) has(session string, waiting []api.Pending, decided ...api.Decided) {
	d.m.Update(state{api.SessionInfo{Session: session, Directories: []string{"/work/" + session}}, waiting, decided})
}

// looks is what a person does before a key is pressed.
func (d *desk) looks() { d.now = d.now.Add(settle) }

func (d *desk) types(keys ...string) {
	for _, k := range keys {
		if cmd := d.m.press(k); cmd != nil {
			if msg := cmd(); msg != nil {
				d.m.Update(msg)
			}
		}
	}
}

func (d *desk) made(want ...string) {
	d.t.Helper()
	if got := strings.Join(d.decided, "\n"); got != strings.Join(want, "\n") {
		d.t.Errorf("decided:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	d.decided = nil
}

func (d *desk) shows(texts ...string) {
	d.t.Helper()
	screen := ansi.Strip(strings.Join(d.m.screen(), "\n"))
	for _, text := range texts {
		if !strings.Contains(screen, text) {
			d.t.Errorf("%q is not on the screen:\n%s", text, screen)
		}
	}
}

func (d *desk) pending(n int, kind string) api.Pending {
	return api.Pending{
		ID: fmt.Sprintf("sg_%03d", n), Kind: kind, Message: fmt.Sprint("question ", n), Directory: "/work/a", Step: 3, Command: "make all",
		Since: d.now.Add(time.Duration(n) * time.Second), Deadline: d.now.Add(time.Minute), Count: 1,
	}
}

func TestAnswers(t *testing.T) {
	d := newDesk(t)
	d.shows("WAITING 0")
	d.m.Update(looked{})
	d.shows("No session is running; waiting for one.")
	d.has("a", nil)
	d.shows("Nothing waits for a decision.")
	one, two, three := d.pending(1, messages.KindGate), d.pending(2, messages.KindNetwork), d.pending(3, messages.KindDelete)
	one.Callers = []api.Process{{PID: 12, Name: "cat", CommandLine: "cat x", Program: "/bin/cat"}, {PID: 11, Name: "sh"}}
	d.has("a", []api.Pending{one, two, three})
	d.shows("WAITING 1/3", "> sg_001", "question 1", "asks    cat (12): cat x [/bin/cat]", "within  sh (11)", "step    3: make all", "for this session")
	d.looks()
	d.types("a")
	d.made("a sg_001 allow=true session 0s approvals")
	d.shows("Allowed sg_001, for this session.")

	d.has("a", []api.Pending{two, three})
	d.looks()
	d.types("s", "t", "t", "d") // project, 1h
	d.made("a sg_002 allow=false project 1h0m0s approvals")

	d.has("a", []api.Pending{three}) // about what a step does: nothing is kept
	d.looks()
	d.shows("(this time)", "deletes many files")
	d.types("a")
	d.made("a sg_003 allow=true  0s approvals")

	d.has("a", []api.Pending{two})
	d.looks()
	d.types("s", "s", "a") // once: without a time
	d.made("a sg_002 allow=true once 0s approvals")
	d.m.Update(outcome{err: errors.New("safeguard sg_002 was already denied by cli")})
	d.shows("already denied by cli")
}

// A key does not answer a question that came under it just now.
func TestKeyIsForWhatIsSeen(t *testing.T) {
	d := newDesk(t)
	one, two := d.pending(1, messages.KindGate), d.pending(2, messages.KindGate)
	d.has("a", []api.Pending{one})
	d.types("a") // pressed for something else
	d.made()
	d.shows("has just changed")
	d.looks()
	d.has("a", []api.Pending{one, two}) // another one behind it: nothing has moved
	d.has("b", []api.Pending{d.pending(0, messages.KindGate)})
	d.types("a")
	d.made("a sg_001 allow=true session 0s approvals")
	d.has("a", []api.Pending{two}) // decided elsewhere
	d.types("a", "d")
	d.made()
	d.types("j") // chosen by the person
	d.types("d")
	d.made() // it has been a moment only
	d.looks()
	d.types("k", "d")
	d.made("b sg_000 allow=false session 0s approvals")
	d.has("a", nil)
	d.has("b", nil)
	d.types("a", "d", "u")
	d.made()
	d.shows("press tab")
}

func TestHistory(t *testing.T) {
	d := newDesk(t)
	done := api.Decided{Pending: d.pending(1, messages.KindGate), At: d.now, Outcome: "allow", By: "cli", Scope: "user", Rule: "r-1", Standing: true}
	step := api.Decided{Pending: d.pending(2, messages.KindDelete), At: d.now.Add(time.Second), Outcome: "allow", By: "cli", Final: "it was about what step 3 did"}
	d.has("a", nil, step, done)
	d.types("tab")
	d.shows("HISTORY 1/2", "allowed by cli", "what step 3 did")
	d.looks()
	d.types("u")
	d.made()
	d.shows("It cannot be taken back: it was about what step 3 did.")
	d.types("j", "u")
	d.made("a sg_001 back approvals")
	d.shows("sg_001 was taken back", "r-1")
	d.types("a", "d") // nothing is answered here
	d.made()

	d.m.Update(gone{api.SessionInfo{Session: "a"}})
	d.shows("The session a has ended.", "its session has ended", "no session")
	d.looks()
	d.types("u")
	d.made()
	d.shows("sandbox policy remove r-1")
	d.types("tab")
	d.shows("WAITING 0")
}

// TestLastAnswer: the answer upon which a session ends is shown, although the session cannot be asked any more.
func TestLastAnswer(t *testing.T) {
	d := newDesk(t)
	d.has("a", []api.Pending{d.pending(1, messages.KindGate), d.pending(2, messages.KindGate)})
	a := api.SessionInfo{Session: "a"}
	for _, answer := range []api.DecideRequest{{ID: "sg_002", Allow: true, By: "cli"}, {ID: "sg_002", By: "twice"}, {ID: "sg_009", By: "unknown"}} {
		d.m.Update(answered{a, answer})
	}
	d.m.Update(answered{api.SessionInfo{Session: "b"}, api.DecideRequest{ID: "sg_001", By: "another session"}})
	d.shows("WAITING 1")
	d.m.Update(gone{a})
	d.types("tab")
	d.shows("HISTORY 1 ", "allowed by cli")
}

func TestLeave(t *testing.T) {
	for _, key := range []string{"q", "ctrl+c", "esc"} {
		if cmd := newDesk(t).m.press(key); cmd == nil || cmd() != tea.Quit() {
			t.Errorf("%s does not leave", key)
		}
	}
}

// Whatever a session says and however small the terminal is: no line is too wide, none too many, and nothing acts.
func TestHostileTexts(t *testing.T) {
	hostile := "\x1b[2J\x1b]0;t\a\u202ereversed\u2066\u200b\u3164\xff\n\r\tALLOWED" + strings.Repeat("日", 2000)
	for _, history := range []bool{false, true} {
		d := newDesk(t)
		p := d.pending(1, messages.KindGate)
		p.Message, p.Directory, p.Command, p.SamplePaths = hostile, hostile, hostile, []string{hostile, hostile}
		p.Callers = []api.Process{{Name: hostile, CommandLine: hostile, Program: hostile}}
		odd := p
		odd.ID, odd.Kind = hostile, hostile
		d.has(hostile, []api.Pending{p, odd}, api.Decided{Pending: p, Outcome: hostile, By: hostile, Scope: hostile, Rule: hostile, Final: hostile})
		d.m.note, d.m.history = hostile, history
		d.m.choose()
		for _, width := range []int{0, 1, 2, 7, 23, 40, 80} {
			for _, height := range []int{0, 1, 2, 3, 4, 5, 10, 24} {
				d.m.Update(tea.WindowSizeMsg{Width: width, Height: height})
				lines := d.m.screen()
				if len(lines) > height {
					t.Fatalf("%dx%d: %d lines", width, height, len(lines))
				}
				for _, l := range lines {
					if w := ansi.StringWidth(l); w > width {
						t.Fatalf("%dx%d: a line of %d: %q", width, height, w, l)
					}
					for _, r := range ansi.Strip(l) {
						if !texts.Clean(r) {
							t.Fatalf("%U is shown: %q", r, l)
						}
					}
				}
			}
		}
	}
}

// On a terminal of 40x10 the question, its details and the keys are there.
func TestSmall(t *testing.T) {
	d := newDesk(t)
	d.m.Update(tea.WindowSizeMsg{Width: 40, Height: 10})
	var many []api.Pending
	for i := range 2000 {
		many = append(many, d.pending(i, messages.KindGate))
	}
	d.has("a", many)
	d.shows("WAITING 1/2000", "> sg_000", "what    question 0", "a allow  d deny", "q leave", "[↓]")
	d.types("G")
	d.shows("> sg_1999", "WAITING 2000/2000")
	for range 20 {
		d.types("space")
		d.m.screen()
	}
	d.shows("session a")
}
