package stdio_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/frontend/stdio"
)

// part is a server that has a session in another's place.
type part struct {
	lines *io.PipeWriter
	taken chan struct{}
	done  chan struct{}
	err   error // once done is closed
}

// newPart serves as o says, for one session.
func newPart(o stdio.Options) *part {
	in, lines := io.Pipe()
	p := &part{lines: lines, taken: make(chan struct{}, 8), done: make(chan struct{})}
	had := false
	o.In, o.Elsewhere = in, nil
	o.Takes = func(exists bool) bool {
		if !exists && had {
			return false
		}
		had = true
		p.taken <- struct{}{}
		return true
	}
	go func() {
		defer close(p.done)
		p.err = stdio.New(o).Serve(context.Background())
		in.Close()
	}()
	return p
}

func (p *part) Write(b []byte) (int, error) { return p.lines.Write(b) }
func (p *part) Done() <-chan struct{}       { return p.done }

func (p *part) Takes() bool {
	select {
	case <-p.taken:
		return true
	case <-p.done:
		return false
	}
}

func (p *part) Leave() error {
	p.lines.Close()
	<-p.done
	return p.err
}

// newDivided is a lab in which sessions of machines are had by parts; parts returns how many there were.
func newDivided(t *testing.T) (l *lab, parts func() int, last func() *part) {
	t.Helper()
	var all []*part
	return newLab(t, labOptions{noStart: true, piped: func(o *stdio.Options) {
		o.Elsewhere = func(r stdio.StartRequest) stdio.Other {
			if r.Isolation != "vm" {
				return nil
			}
			all = append(all, newPart(*o))
			return all[len(all)-1]
		}
	}}), func() int { return len(all) }, func() *part { return all[len(all)-1] }
}

// TestElsewhere: sessions follow one another here and elsewhere, and the client sees no difference.
func TestElsewhere(t *testing.T) {
	l, parts, _ := newDivided(t)
	request := func(isolation string) map[string]any {
		r := l.directories()
		r["isolation"] = isolation
		return r
	}
	want := 0
	for _, isolation := range []string{"vm", "jail", "jail", "vm", "vm", "jail"} {
		if isolation == "vm" {
			want++
		}
		if m := l.Call("session.status", nil); !strings.Contains(m.Line, `"none"`) {
			t.Errorf("before it: %s", m.Line)
		}
		l.Must("session.start", request(isolation), nil)
		if m := l.Call("session.start", request(isolation)); m.Code() != string(stdio.SessionExists) {
			t.Errorf("a second one: %s", m.Line)
		}
		if err := l.SendRaw(`{"type":"fs.read","request_id":"long","x":"` + strings.Repeat("x", stdio.MaxLine) + `"}`); err != nil {
			t.Fatal(err)
		}
		if m := l.Response("long"); m.Code() != string(stdio.MessageTooLarge) {
			t.Errorf("a long line: %s", m.Line)
		}
		l.Must("fs.read", map[string]any{"path": "f"}, nil)
		stop, late := l.Send("session.stop", nil), l.Send("fs.read", map[string]any{"path": "f"})
		if m := l.Response(stop); !m.OK() {
			t.Errorf("%s", m.Line)
		}
		if m := l.Response(late); m.Code() != string(stdio.NoSession) {
			t.Errorf("after its end: %s", m.Line)
		}
		if parts() != want {
			t.Errorf("%d parts, not %d", parts(), want)
		}
	}
	l.Must("session.start", request("vm"), nil)
	l.Close()
	l.WaitEnd()
	if err := <-l.served; err != nil {
		t.Error(err)
	}
}

// TestElsewhereDies: if the process that has the session ends by itself, so does the conversation, with the reason.
func TestElsewhereDies(t *testing.T) {
	l, _, last := newDivided(t)
	r := l.directories()
	r["isolation"] = "vm"
	l.Must("session.start", r, nil)
	want := errors.New("killed")
	_ = last().lines.CloseWithError(want)
	l.WaitEnd()
	if err := <-l.served; !errors.Is(err, want) {
		t.Errorf("%v", err)
	}
}
