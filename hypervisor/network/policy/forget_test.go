package policy

import (
	"context"
	"net/netip"
	"testing"
	"time"
)

// What was taken back is asked again: the name, and the addresses that it had opened.
func TestForget(t *testing.T) {
	asked := 0
	e, _ := engine(t, Ask, Options{Ask: func(context.Context, Question) (Answer, error) { asked++; return Answer{Allow: true}, nil }})
	ctx, address := context.Background(), netip.MustParseAddr("93.184.216.34")
	v := e.Lookup(ctx, "example.com", netip.AddrPort{})
	e.Learn(v, []netip.Addr{address}, time.Minute)
	if got := e.Peek(tcpTo("93.184.216.34:80")); !got.Allowed() || asked != 1 {
		t.Fatalf("%+v after %d questions", got, asked)
	}
	e.Forget(Question{Lookup: true, Domain: "example.com"})
	if got := e.Peek(tcpTo("93.184.216.34:80")); got.Action != Undecided {
		t.Errorf("the address: %+v", got)
	}
	e.Lookup(ctx, "example.com", netip.AddrPort{})
	if asked != 2 {
		t.Errorf("%d questions", asked)
	}
	to := tcpTo("10.1.1.1:80")
	e.Connect(ctx, to, netip.AddrPort{})
	e.Forget(Question{Target: to})
	if got := e.Peek(to); got.Action != Undecided {
		t.Errorf("the other address: %+v", got)
	}
}
