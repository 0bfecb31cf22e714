package policy

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAudit(t *testing.T) {
	var mu sync.Mutex
	var got []Event
	var logged bytes.Buffer
	e, clock := engine(t, Allowlist, Options{
		OnEvent: func(ev Event) { mu.Lock(); defer mu.Unlock(); got = append(got, ev) },
		Log:     slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, "20.0.0.1")
	source := netip.MustParseAddrPort("10.0.2.15:999")
	target := tcpTo("20.0.0.1:80")
	f := e.Start(target, source, e.Peek(target))
	f.Sent(5)
	f.Received(7)
	clock.add(time.Second)
	if live := e.Flows(); len(live) != 1 || live[0].Sent != 5 || live[0].Duration != time.Second {
		t.Errorf("live: %+v", live)
	}
	f.End(errors.New("reset"))
	f.End(nil)
	if live := e.Flows(); len(live) != 0 {
		t.Errorf("live after the end: %+v", live)
	}
	denied := tcpTo("20.0.0.2:80")
	e.Denied(denied, source, e.Peek(denied))
	e.LookedUp(source, Verdict{Action: Deny, Domain: "x.test", Rule: "no"}, nil)

	if len(got) != 4 {
		t.Fatalf("%d events: %+v", len(got), got)
	}
	start, end, deny, lookup := got[0], got[1], got[2], got[3]
	if start.Kind != EventStart || start.Flow != 1 || start.Source != source || start.Target != target.Address || start.Rule != "20.0.0.1" {
		t.Errorf("start: %+v", start)
	}
	if end.Kind != EventEnd || end.Flow != 1 || end.Sent != 5 || end.Received != 7 || end.Duration != time.Second || end.Error != "reset" {
		t.Errorf("end: %+v", end)
	}
	if deny.Kind != EventDeny || deny.Action != Deny || deny.Target != denied.Address || deny.Rule == "" || deny.Time.IsZero() {
		t.Errorf("deny: %+v", deny)
	}
	if lookup.Kind != EventLookup || lookup.Domain != "x.test" || lookup.Action != Deny {
		t.Errorf("lookup: %+v", lookup)
	}
	for _, want := range []string{"level=DEBUG msg=\"network flow\" op=start protocol=tcp action=allow target=20.0.0.1:80", "level=INFO msg=\"network flow\" op=deny", "sent=5 received=7"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, logged.String())
		}
	}
}
