package actors

import (
	"github.com/codeagent/sandbox/messages"

	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// What a program inside says first must be a command; all else is answered with an
// error, and no step is begun.
func TestInsideGarbage(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":      "",
		"no JSON":      "hello\n",
		"an end":       `{"ended":true}` + "\n",
		"no command":   `{"dir":"/"}` + "\n",
		"not UTF-8":    `{"command":"` + "\xff" + `"}` + "\n",
		"another type": `[1]` + "\n",
		"too long":     `{"command":"` + strings.Repeat("x", api.InsideMaxLine) + `"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			n := &insider{} // it has no session: a step that is begun panics
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer ours.Close()
				n.talk(ours)
			}()
			go func() {
				_, _ = theirs.Write([]byte(text)) // it may not be read to its end
				if text == "" {
					_ = theirs.Close()
				}
			}()
			answer, _ := bufio.NewReader(theirs).ReadString('\n')
			if text != "" && !strings.Contains(answer, `"error"`) {
				t.Errorf("answer %q", answer)
			}
			<-done
		})
	}
}

// A program inside asks for 100,000 steps, several at a time, and has each of them change
// something. It gets half of what the history keeps; all others are told that they share their caller's step, and the
// history of before is there, as is the way back.
func TestInsideFlood(t *testing.T) {
	const atOnce = 8
	asked := int64(require.Fewer(100_000))
	l := newLab(t, 1, nil)
	enough := make(chan struct{})
	defer close(enough)
	go func() { // nobody waits for events
		for {
			select {
			case <-l.events:
			case <-enough:
				return
			}
		}
	}()
	l.mustRun(func() error { return l.fs[0].Unlink("f3") })
	old := l.steps(l.dirs[0])
	kept, first, before := len(old), old[len(old)-1].StepID, l.snap(0)
	most := l.s.inside.most()
	var own, shared atomic.Int64
	ask := func(i int64) error {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		go func() { defer ours.Close(); l.s.inside.talk(ours) }()
		a, err := insideSay(theirs, api.InsideRequest{Command: "flood"})
		switch {
		case err != nil || a.Error != "":
			return fmt.Errorf("request %d: %w %s", i, err, a.Error)
		case a.Shared != "":
			shared.Add(1)
			return nil
		}
		own.Add(1)
		if err := l.fs[0].WriteFile(fmt.Sprint("flood", i), []byte("x")); err != nil {
			return err
		}
		_, err = insideSay(theirs, api.InsideRequest{Ended: true})
		return err
	}
	l.mustRun(func() error {
		var next atomic.Int64
		failed := make(chan error, atOnce)
		for range atOnce {
			go func() {
				var err error
				for i := next.Add(1); i <= asked && err == nil; i = next.Add(1) {
					err = ask(i)
				}
				failed <- err
			}()
		}
		var err error
		for range atOnce {
			err = errors.Join(err, <-failed)
		}
		return err
	})
	// Those that were under way when the limit was reached count beyond it.
	steps := l.steps(l.dirs[0])
	if more := len(steps) - kept; more > most+atOnce || own.Load()+shared.Load() != asked || shared.Load() < asked/2 {
		t.Fatalf("%d more entries in the history, %d requests with a step, %d without", more, own.Load(), shared.Load())
	}
	if oldest := steps[len(steps)-1].StepID; oldest != first {
		t.Errorf("the oldest step is %d, and was %d: it was pushed out", oldest, first)
	}
	if _, err := l.s.Undo(t.Context(), api.UndoRequest{Group: steps[0].Group}); err != nil {
		t.Fatal(err)
	}
	l.fs[0].Forget()
	treesnap.AssertEqual(t, before, l.snap(0))
}

// insideSay sends what a program inside says, and returns the answer.
func insideSay(c net.Conn, r api.InsideRequest) (a api.InsideAnswer, err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return a, err
	}
	if _, err := c.Write(append(text, '\n')); err != nil {
		return a, err
	}
	return a, json.NewDecoder(c).Decode(&a)
}

// FuzzInside feeds lines of programs inside to the decoder: it must not panic, and keeps
// no more than a line may have.
func FuzzInside(f *testing.F) {
	f.Add([]byte(`{"command":"true","dir":"/work"}` + "\n"))
	f.Add([]byte(`{"ended":true,"exit_code":3}` + "\n"))
	f.Add([]byte("{\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := readInside(bufio.NewReaderSize(bytes.NewReader(text), api.InsideMaxLine))
		if err == nil && len(r.Command)+len(r.Dir) > api.InsideMaxLine {
			t.Errorf("%d bytes", len(r.Command)+len(r.Dir))
		}
	})
}

// Of several commands that run, a question belongs to the one whose first process is the last of those who ask, or to the only
// one that starts, if the guest's first process asks. All else is nobody's.
func TestAttribution(t *testing.T) {
	chain := func(inside int) []messages.Process { return []messages.Process{{PID: 100}, {PID: 101, Inside: inside}} }
	one, two, starting := &outer{pid: 7}, &outer{pid: 8}, &outer{}
	for _, c := range []struct {
		what   string
		outers []*outer
		asks   []messages.Process
		want   *outer
	}{
		{"one command", []*outer{one}, chain(7), nil},
		{"the first", []*outer{one, two}, chain(7), one},
		{"the second", []*outer{one, two}, chain(8), two},
		{"an orphan", []*outer{one, two}, chain(9), nil},
		{"a chain that is cut", []*outer{one, two, starting}, chain(0), nil},
		{"nobody", []*outer{one, two}, nil, nil},
		{"the guest, for the one that starts", []*outer{one, starting}, chain(1), starting},
		{"the guest, for one of two that start", []*outer{starting, {}}, chain(1), nil},
		{"the guest, while none starts", []*outer{one, two}, chain(1), nil},
	} {
		n := &insider{outers: c.outers}
		if got := n.of(c.asks); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}
