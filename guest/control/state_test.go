package control

import (
	"errors"
	"strings"
	"testing"
)

// feed gives one line from the guest to a state, as a Host would.
func feed(s *State, line string) error {
	m, err := Parse([]byte(line))
	if err != nil {
		return err
	}
	return s.Received(m)
}

func exec(t *testing.T, s *State, id int64) {
	t.Helper()
	if err := s.Sent(&Message{Type: TypeExec, ID: id, Command: "x"}); err != nil {
		t.Fatal(err)
	}
}

func TestCC01ValidSequence(t *testing.T) {
	s := NewState()
	exec(t, s, 42)
	if s.Running(42) {
		t.Error("running before the guest said so")
	}
	for _, line := range []string{
		`{"type":"hello","version":1}`,
		`{"type":"step_started","id":42}`,
		`{"type":"output","id":42,"stream":"stdout","data":"added 150 packages\n"}`,
	} {
		if err := feed(s, line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if !s.Running(42) {
		t.Error("not running after step_started")
	}
	if err := feed(s, `{"type":"step_completed","id":42,"exit_code":0}`); err != nil || s.Commands() != 0 {
		t.Errorf("step_completed: %v, %d commands left", err, s.Commands())
	}
}

// TestCC02Malformed, CC-03 and CC-04 give lines that must be refused, and show
// that the state is as usable as before.
func TestCC02Malformed(t *testing.T) {
	refuse(t, ErrMalformed, `{"type":"exec","id":1,"argv":["x"],"fds":1,"further":[3,4]}`, `{"type":"exec","id":1,"argv":["x"],"fds":5,"further":[2,4]}`,
		`{"type":"exec","id":1,"argv":["x"],"fds":5,"further":[4,4]}`, `{"type":"exec","id":1,"argv":["x"],"fds":5,"further":[4,1024]}`,
		`{"type":"exec","id":1,"argv":["x"],"ignored":[0]}`, `{"type":"exec","id":1,"argv":["x"],"fds":33}`, `{`, `null`, `[]`, `"x"`, `{"type":7}`, `{"type":"step_started"}`, `{"type":"step_started","id":"a"}`,
		`{"type":"step_completed","id":1}`, `{"type":"step_completed","id":1,"exit_code":256}`, `{"type":"step_completed","id":1,"exit_code":-1}`,
		`{"type":"output","id":1,"stream":"both","data":""}`, `{"type":"hello"}`, `{"type":"clock"}`, `{"type":"clock","time_ns":-1}`, `{"type":"output","id":1,"stream":"stdout","data":{"base64":"%"}}`,
		`{"type":"step_started","id":99999999999999999999}`, `{"type":"step_started","id":1,"fds":1000000}`, "\x00\xff")
}

func TestCC03UnknownType(t *testing.T) {
	refuse(t, ErrUnknown, `{"type":"reboot","id":1}`, `{"type":""}`, `{}`)
}

func TestCC04Oversized(t *testing.T) {
	refuse(t, ErrTooLarge, `{"type":"output","id":1,"stream":"stdout","data":"`+strings.Repeat("x", MaxMessage)+`"}`)
}

func refuse(t *testing.T, want error, lines ...string) {
	t.Helper()
	s := NewState()
	exec(t, s, 1)
	for _, line := range lines {
		// null is JSON for "nothing": a message without a type.
		if err := feed(s, line); !errors.Is(err, want) && line != "null" || err == nil {
			t.Errorf("%.60q: %v, want %v", line, err, want)
		}
	}
	if err := feed(s, `{"type":"step_started","id":1}`); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestListeners: of each kind the guest sends one listener, and none that nobody knows.
func TestListeners(t *testing.T) {
	s := NewState()
	for line, ok := range map[string]bool{`{"type":"inside","fds":1}`: true, `{"type":"inside","fds":1,"agent":"ssh"}`: true, `{"type":"inside","fds":1,"agent":"other"}`: false, `{"type":"inside","agent":"ssh"}`: false} {
		if err := feed(s, line); (err == nil) != ok {
			t.Errorf("%s: %v", line, err)
		}
		if err := feed(s, line); err == nil {
			t.Errorf("%s passes twice", line)
		}
	}
}

func TestCC05CompletedWithoutStarted(t *testing.T) {
	s := NewState()
	sequenceError(t, s, `{"type":"step_completed","id":7,"exit_code":0}`)
	exec(t, s, 7)
	sequenceError(t, s, `{"type":"step_completed","id":7,"exit_code":0}`)
	sequenceError(t, s, `{"type":"output","id":7,"stream":"stdout","data":"x"}`)
	if s.Commands() != 1 {
		t.Errorf("%d commands, want the pending one", s.Commands())
	}
}

func TestCC06DuplicateStarted(t *testing.T) {
	s := NewState()
	exec(t, s, 7)
	if err := feed(s, `{"type":"step_started","id":7}`); err != nil {
		t.Fatal(err)
	}
	sequenceError(t, s, `{"type":"step_started","id":7}`)
	sequenceError(t, s, `{"type":"start_failed","id":7,"exit_code":127}`)
	if !s.Running(7) {
		t.Error("the step that runs was affected")
	}
	if err := s.Sent(&Message{Type: TypeExec, ID: 7, Command: "x"}); !errors.Is(err, ErrSequence) {
		t.Errorf("a second exec of a running id: %v", err)
	}
}

func TestCC07CancelMidStep(t *testing.T) {
	s := NewState()
	if err := s.Sent(&Message{Type: TypeCancel, ID: 7}); !errors.Is(err, ErrSequence) {
		t.Errorf("cancel of nothing: %v", err)
	}
	exec(t, s, 7)
	if err := feed(s, `{"type":"step_started","id":7}`); err != nil {
		t.Fatal(err)
	}
	if err := s.Sent(&Message{Type: TypeCancel, ID: 7}); err != nil {
		t.Fatal(err)
	}
	// The step goes on until the guest says how it ended.
	if err := feed(s, `{"type":"output","id":7,"stream":"stderr","data":"terminated"}`); err != nil {
		t.Fatal(err)
	}
	if err := feed(s, `{"type":"step_completed","id":7,"exit_code":143,"signal":15}`); err != nil || s.Commands() != 0 {
		t.Errorf("completion: %v, %d commands", err, s.Commands())
	}
	sequenceError(t, s, `{"type":"step_completed","id":7,"exit_code":143}`)
}

// TestWindows: neither direction may exceed what was acknowledged.
func TestWindows(t *testing.T) {
	s := NewState()
	exec(t, s, 1)
	if err := feed(s, `{"type":"step_started","id":1}`); err != nil {
		t.Fatal(err)
	}
	out := &Message{Type: TypeOutput, ID: 1, Stream: Stdout, Data: Text(strings.Repeat("x", MaxData))}
	for range Window / MaxData {
		if err := s.Received(out); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Received(out); !errors.Is(err, ErrSequence) {
		t.Errorf("output beyond the window: %v", err)
	}
	if err := s.Sent(&Message{Type: TypeAck, ID: 1, Bytes: MaxData}); err != nil {
		t.Fatal(err)
	}
	if err := s.Received(out); err != nil {
		t.Errorf("after an ack: %v", err)
	}
	sequenceError(t, s, `{"type":"ack","id":1,"bytes":1}`)
	if err := s.Sent(&Message{Type: TypeStdin, ID: 1, Data: "abc"}); err != nil {
		t.Fatal(err)
	}
	if err := feed(s, `{"type":"ack","id":1,"bytes":3}`); err != nil {
		t.Errorf("ack of stdin: %v", err)
	}
}

func TestGuestSendsHostMessages(t *testing.T) {
	s := NewState()
	exec(t, s, 1)
	if err := feed(s, `{"type":"step_started","id":1}`); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`{"type":"exec","id":1,"command":"x"}`, `{"type":"cancel","id":1}`, `{"type":"stdin","id":1,"data":"x"}`,
		`{"type":"shutdown"}`, `{"type":"rollback_notify","step_id":1}`, `{"type":"clock","time_ns":1}`, `{"type":"hello","version":1}`,
	} {
		err := feed(s, line)
		if strings.Contains(line, "hello") {
			if err != nil {
				t.Errorf("first hello: %v", err)
			}
			sequenceError(t, s, line)
			continue
		}
		if !errors.Is(err, ErrSequence) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func sequenceError(t *testing.T, s *State, line string) {
	t.Helper()
	if err := feed(s, line); !errors.Is(err, ErrSequence) {
		t.Errorf("%s: %v, want %v", line, err, ErrSequence)
	}
}
