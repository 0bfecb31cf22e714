package policy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// person answers when the test lets it.
type person struct {
	asked   chan Question
	answers chan Answer
}

func newPerson() *person {
	return &person{asked: make(chan Question, 100), answers: make(chan Answer, 100)}
}

func (p *person) ask(ctx context.Context, q Question) (Answer, error) {
	p.asked <- q
	select {
	case a := <-p.answers:
		return a, nil
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

// Equal questions are asked once; all that wait get the answer; it is remembered.
func TestAskOnce(t *testing.T) {
	for _, allow := range []bool{true, false} {
		p := newPerson()
		e, _ := engine(t, Ask, Options{Ask: p.ask})
		var waiting sync.WaitGroup
		verdicts := make(chan Verdict, 10)
		for range 10 {
			waiting.Go(func() {
				verdicts <- e.Connect(context.Background(), tcpTo("20.0.0.1:443"), netip.MustParseAddrPort("10.0.2.15:1"))
			})
		}
		if q := <-p.asked; q.Target != tcpTo("20.0.0.1:443") || q.Source != netip.MustParseAddrPort("10.0.2.15:1") || q.Lookup {
			t.Errorf("asked %+v", q)
		}
		p.answers <- Answer{Allow: allow}
		waiting.Wait()
		for range 10 {
			if v := <-verdicts; v.Allowed() != allow || v.Rule == "" {
				t.Errorf("allow %t: %+v", allow, v)
			}
		}
		if v := e.Peek(tcpTo("20.0.0.1:443")); v.Allowed() != allow || v.Action == Undecided {
			t.Errorf("allow %t: later: %+v", allow, v)
		}
		if v := e.Peek(tcpTo("20.0.0.1:80")); v.Action != Undecided {
			t.Errorf("another port: %+v", v)
		}
		if len(p.asked) != 0 {
			t.Error("asked more than once")
		}
	}
}

func TestAskForOnceOnly(t *testing.T) {
	p := newPerson()
	e, _ := engine(t, Ask, Options{Ask: p.ask})
	p.answers <- Answer{Allow: true, Once: true}
	if v := e.Connect(context.Background(), tcpTo("20.0.0.1:443"), netip.AddrPort{}); !v.Allowed() {
		t.Fatalf("%+v", v)
	}
	if v := e.Peek(tcpTo("20.0.0.1:443")); v.Action != Undecided {
		t.Errorf("remembered: %+v", v)
	}
}

// A lookup's allowance opens the addresses that it found, without a second question.
func TestAskedLookupOpensItsAddresses(t *testing.T) {
	p := newPerson()
	e, clock := engine(t, Ask, Options{Ask: p.ask})
	p.answers <- Answer{Allow: true, Once: true}
	v := e.Lookup(context.Background(), "Example.com.", netip.AddrPort{})
	if q := <-p.asked; !q.Lookup || q.Domain != "example.com" {
		t.Errorf("asked %+v", q)
	}
	e.Learn(v, addrs("20.0.0.1"), 0)
	if v := e.Connect(context.Background(), tcpTo("20.0.0.1:443"), netip.AddrPort{}); !v.Allowed() || v.Domain != "example.com" || !v.ByName {
		t.Errorf("%+v", v)
	}
	if got := e.ServerName(e.Peek(tcpTo("20.0.0.1:443")), tcpTo("20.0.0.1:443"), "other.test"); got.Allowed() {
		t.Errorf("another server's name: %+v", got)
	}
	clock.add(5 * time.Minute)
	if v := e.Peek(tcpTo("20.0.0.1:443")); v.Action != Undecided {
		t.Errorf("after the answer's time: %+v", v)
	}
}

func TestNobodyDecides(t *testing.T) {
	p := newPerson()
	e, _ := engine(t, Ask, Options{Ask: p.ask, AskTimeout: time.Millisecond})
	if v := e.Connect(context.Background(), tcpTo("20.0.0.1:443"), netip.AddrPort{}); v.Allowed() || v.Rule != "nobody decided in time" {
		t.Errorf("%+v", v)
	}
	if v := e.Peek(tcpTo("20.0.0.1:443")); v.Action != Undecided {
		t.Errorf("silence is remembered as an answer: %+v", v)
	}
	broken, _ := engine(t, Ask, Options{Ask: func(context.Context, Question) (Answer, error) {
		return Answer{Allow: true}, errors.New("no terminal")
	}})
	if v := broken.Connect(context.Background(), tcpTo("20.0.0.1:443"), netip.AddrPort{}); v.Allowed() {
		t.Errorf("allowed by an error: %+v", v)
	}
}

func TestAskingEnds(t *testing.T) {
	p := newPerson()
	e, _ := engine(t, Ask, Options{Ask: p.ask})
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan Verdict)
	go func() { gone <- e.Connect(ctx, tcpTo("20.0.0.1:443"), netip.AddrPort{}) }()
	<-p.asked
	cancel()
	if v := <-gone; v.Allowed() {
		t.Errorf("who went away: %+v", v)
	}
	go func() { gone <- e.Connect(context.Background(), tcpTo("20.0.0.1:443"), netip.AddrPort{}) }()
	e.Close()
	if v := <-gone; v.Allowed() {
		t.Errorf("closed: %+v", v)
	}
}

func TestOpenQuestionsAreBounded(t *testing.T) {
	p := newPerson()
	e, _ := engine(t, Ask, Options{Ask: p.ask, MaxPending: 3})
	var waiting sync.WaitGroup
	for i := range 3 {
		waiting.Go(func() {
			e.Connect(context.Background(), tcpTo(fmt.Sprintf("20.0.0.%d:443", i)), netip.AddrPort{})
		})
		<-p.asked
	}
	if v := e.Connect(context.Background(), tcpTo("20.0.0.9:443"), netip.AddrPort{}); v.Action != Deny || v.Rule != "too many open questions" {
		t.Errorf("%+v", v)
	}
	e.Close()
	waiting.Wait()
}

func TestAskNeedsSomebody(t *testing.T) {
	if _, err := New(Options{Network: Network{Mode: Ask}}); err == nil {
		t.Error("mode ask without anybody to ask")
	}
	if _, err := New(Options{Network: Network{Mode: "firewall"}}); !errors.Is(err, ErrSyntax) {
		t.Errorf("an unknown mode: %v", err)
	}
}
