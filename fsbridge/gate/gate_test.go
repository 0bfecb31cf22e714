package gate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds what waits in these tests; nothing waits that long but on a failure.
const patience = 2 * time.Minute

// within returns what comes.
func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal(what + ": nothing came")
		panic("unreachable")
	}
}

// pending is a question of a test.
type pending struct {
	Question
	ctx    context.Context
	answer chan any // bool or error
}

// questions returns what gates ask through.
func questions() (chan pending, func(context.Context, Question) (bool, error)) {
	asked := make(chan pending, 2*MaxQuestions)
	return asked, func(ctx context.Context, q Question) (bool, error) {
		p := pending{q, ctx, make(chan any, 1)}
		asked <- p
		select {
		case a := <-p.answer:
			if err, ok := a.(error); ok {
				return false, err
			}
			return a.(bool), nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// TestAnswers: yes and no are remembered; that nobody answered is not.
func TestAnswers(t *testing.T) {
	asked, ask := questions()
	var denied sync.Map
	g := New(Options{Path: "/opt", Ask: ask, Denied: func(q Question, why error) { denied.Store(q.Path, fmt.Sprint(why)) }})
	for _, c := range []struct {
		path   string
		answer any
		allow  bool
		again  bool // it is asked the next time, too
	}{
		{"/opt/yes", true, true, false}, {"/opt/no", false, false, false}, {"/opt/none", errors.New("timeout"), false, true},
	} {
		for round := range 2 {
			got := make(chan bool)
			go func() {
				allow, err := g.admit(t.Context(), Question{Path: c.path}, nil, false)
				if err != nil {
					t.Error(err)
				}
				got <- allow
			}()
			if round == 0 || c.again {
				within(t, c.path, asked).answer <- c.answer
			}
			if allow := within(t, c.path, got); allow != c.allow {
				t.Errorf("%s, round %d: %v", c.path, round, allow)
			}
		}
		if _, told := denied.Load(c.path); told == c.allow {
			t.Errorf("%s: told of a denial: %v", c.path, told)
		}
	}
}

// TestCoalesced: 10,000 lookups at once are as many questions as there are names, bounded; each gets its answer.
func TestCoalesced(t *testing.T) {
	const lookups = 10_000
	asked, ask := questions()
	tooMany := make(chan struct{}, lookups)
	g := New(Options{Path: "/opt", Ask: ask, Denied: func(_ Question, why error) {
		if errors.Is(why, ErrTooMany) {
			tooMany <- struct{}{}
		}
	}})
	got := make(chan bool, lookups)
	for i := range lookups {
		go func() {
			allow, _ := g.admit(t.Context(), Question{Path: fmt.Sprint("/opt/", i%(2*MaxQuestions))}, nil, false)
			got <- allow
		}()
	}
	var waiting []pending
	for range MaxQuestions {
		waiting = append(waiting, within(t, "a question", asked))
	}
	within(t, "a refusal", tooMany)
	if n := g.Waiting(); n != MaxQuestions {
		t.Errorf("%d questions wait", n)
	}
	for _, p := range waiting {
		p.answer <- true
	}
	// Now others may ask.
	end := make(chan struct{})
	defer close(end)
	go func() {
		for {
			select {
			case p := <-asked:
				p.answer <- true
			case <-end:
				return
			}
		}
	}()
	allowed := 0
	for range lookups {
		if within(t, "an answer", got) {
			allowed++
		}
	}
	if allowed < MaxQuestions {
		t.Errorf("%d of %d were allowed", allowed, lookups)
	}
}

// TestFlood: of 10,000 lookups of different names at once, as many wait as may, and the others are refused at once: they
// hold nothing, and may ask again. An answer wakes all who wait for that name, and nobody else.
func TestFlood(t *testing.T) {
	const lookups, together = 10_000, 20
	asked, ask := questions()
	var tooMany atomic.Int64
	g := New(Options{Path: "/opt", Ask: ask, Denied: func(_ Question, why error) {
		if errors.Is(why, ErrTooMany) {
			tooMany.Add(1)
		}
	}})
	type reply struct {
		path  string
		allow bool
	}
	got := make(chan reply, lookups+MaxQuestions*together)
	lookup := func(path string) {
		allow, err := g.admit(t.Context(), Question{Path: path}, nil, false)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		got <- reply{path, allow}
	}
	before := runtime.NumGoroutine()
	for i := range lookups {
		go lookup(fmt.Sprint("/opt/", i))
	}
	refused := map[string]bool{}
	for range lookups - MaxQuestions {
		r := within(t, "a refusal", got)
		if r.allow {
			t.Fatalf("%+v", r)
		}
		refused[r.path] = true
	}
	if n := tooMany.Load(); n != lookups-MaxQuestions || g.Waiting() != MaxQuestions {
		t.Errorf("%d were too many, %d wait", n, g.Waiting())
	}
	g.mu.Lock()
	if n := len(g.decided); n != 0 {
		t.Errorf("%d refusals are kept", n)
	}
	g.mu.Unlock()
	// A question is the goroutine that asks; who waits for it is the file system's.
	for end := time.Now().Add(patience); runtime.NumGoroutine()-before > 2*MaxQuestions; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are left for %d questions", runtime.NumGoroutine()-before, MaxQuestions)
		}
	}

	var waiting []pending
	for range MaxQuestions {
		p := within(t, "a question", asked)
		waiting = append(waiting, p)
		for range together - 1 {
			go lookup(p.Path)
		}
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		n := 0
		g.mu.Lock()
		for _, a := range g.asked {
			n += a.waiting
		}
		g.mu.Unlock()
		if n == MaxQuestions*together {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d wait", n)
		}
	}
	for i, p := range waiting {
		p.answer <- i%2 == 0
		for range together {
			if r := within(t, "an answer", got); r.path != p.Path || r.allow != (i%2 == 0) {
				t.Fatalf("%+v, answered was %s", r, p.Path)
			}
		}
	}
	for path := range refused { // there is room: it is asked now
		go lookup(path)
		within(t, "another question", asked).answer <- true
		if r := within(t, "its answer", got); !r.allow {
			t.Errorf("%+v", r)
		}
		break
	}
	if len(asked) != 0 || len(got) != 0 || g.Waiting() != 0 {
		t.Errorf("left: %d questions, %d answers, %d waiting", len(asked), len(got), g.Waiting())
	}
}

// TestWithdrawn: a question goes with the last that waits for it, and not before.
func TestWithdrawn(t *testing.T) {
	asked, ask := questions()
	g := New(Options{Path: "/opt", Ask: ask})
	left := make(chan error, 2)
	lookup := func() context.CancelFunc {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := g.admit(ctx, Question{Path: "/opt/x"}, nil, false)
			left <- err
		}()
		return cancel
	}
	first := lookup()
	p := within(t, "the question", asked)
	second := lookup()
	for end := time.Now().Add(patience); ; {
		g.mu.Lock()
		n := g.asked["/opt/x"].waiting
		g.mu.Unlock()
		if n == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the second does not wait")
		}
		time.Sleep(time.Millisecond)
	}
	first()
	if err := within(t, "the first", left); !errors.Is(err, context.Canceled) || p.ctx.Err() != nil {
		t.Fatalf("%v; the question: %v", err, p.ctx.Err())
	}
	second()
	within(t, "the second", left)
	within(t, "the question's end", p.ctx.Done())
	go func() { _, _ = g.admit(t.Context(), Question{Path: "/opt/x"}, nil, false) }()
	within(t, "a new question", asked).answer <- true
}

// FuzzQuestion: nothing of a name acts on a terminal.
func FuzzQuestion(f *testing.F) {
	for _, s := range []string{"/opt/x", "/opt/\x1b[2J", "/opt/\u202egpj.exe", "/opt/\xff", "/opt/a\nb", strings.Repeat("x", 4096)} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, path, program string) {
		q := Question{Path: path, Callers: []CallingProcess{{Name: program}}, Dir: true}.String()
		for _, r := range q {
			if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
				t.Fatalf("%q has %U", q, r)
			}
		}
	})
}
