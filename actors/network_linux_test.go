package actors

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// A destination that no rule names waits for a decision: of a person, of the
// session's end, or of the deadline. Only a person's is remembered.
func TestNetworkQuestions(t *testing.T) {
	for _, how := range []string{"allow", "deny", "timeout", "close"} {
		t.Run(how, func(t *testing.T) {
			clock := actortest.NewFakeClock()
			l := newLab(t, 1, func(c *api.Config) {
				c.Network.Mode = policy.Ask
				if how == "timeout" {
					c.Clock = clock
				}
			})
			to := policy.Target{Protocol: policy.TCP, Address: netip.MustParseAddrPort("198.51.100.1:80")}
			verdicts := make(chan policy.Verdict, 1)
			connect := func() { verdicts <- l.s.net.engine.Connect(t.Context(), to, netip.AddrPort{}) }
			go connect()
			p := l.event(api.EventSafeguardTriggered).Pending
			if p.Kind != messages.KindNetwork || p.Message != "connect to tcp 198.51.100.1:80" || p.Directory != l.dirs[0] {
				t.Fatalf("%+v", p)
			}
			switch how {
			case "timeout":
				clock.Advance(l.s.safeguards().Timeout)
			case "close":
				if err := l.s.Close(t.Context()); err != nil {
					t.Error(err)
				}
			default:
				if err := l.s.Decide(t.Context(), api.DecideRequest{ID: p.ID, Allow: how == "allow", By: "test"}); err != nil {
					t.Fatal(err)
				}
			}
			if v := actortest.Within(t, "verdict", verdicts); v.Allowed() != (how == "allow") {
				t.Errorf("%+v", v)
			}
			if how == "close" {
				return
			}
			if d := l.event(api.EventSafeguardDecided).Decision; d.ID != p.ID || d.Allow != (how == "allow") {
				t.Errorf("%+v", d)
			}
			if again := l.s.net.engine.Peek(to).Action; (again == policy.Undecided) != (how == "timeout") {
				t.Errorf("the next time it is %s", again)
			}
			if err := l.s.Close(t.Context()); err != nil { // the audit is written
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(l.s.dirs[0].Config.UndoDir, "decisions.jsonl"))
			opening, line, _ := bytes.Cut(text, []byte("\n")) // the session's own, and the decision's
			var d messages.Decision
			if err == nil {
				err = json.Unmarshal(line, &d)
			}
			if !bytes.Contains(opening, []byte(`"kind":"session"`)) || !bytes.Contains(opening, []byte(`"network":"ask"`)) {
				t.Errorf("the session in the audit: %s", opening)
			}
			if err != nil || d.Kind != messages.KindNetwork || d.Message != p.Message || (d.Decision == "allow") != (how == "allow") {
				t.Errorf("audit: %v, %s", err, text)
			}
		})
	}
}

// What people are asked says where to, and by what name.
func TestNetworkQuestionText(t *testing.T) {
	at := netip.MustParseAddrPort("198.51.100.1:443")
	for want, q := range map[string]policy.Question{
		"connect to a.test (its name is looked up, and its addresses opened)": {Lookup: true, Domain: "a.test"},
		"connect to udp 198.51.100.1:443":                                     {Target: policy.Target{Protocol: policy.UDP, Address: at}},
		"connect to tcp 198.51.100.1:443 (a.test)":                            {Target: policy.Target{Protocol: policy.TCP, Address: at}, Domain: "a.test"},
		"ping 198.51.100.1":                                                   {Target: policy.Target{Protocol: policy.ICMP, Address: netip.AddrPortFrom(at.Addr(), 0)}},
	} {
		if got := networkQuestion(q); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Every line of the engine's audit is an event, which counts.
func TestNetworkEvents(t *testing.T) {
	l := newLab(t, 1, func(c *api.Config) { c.Network.Mode = policy.Allowlist })
	to := policy.Target{Protocol: policy.TCP, Address: netip.MustParseAddrPort("198.51.100.1:80")}
	v := l.s.net.engine.Peek(to)
	l.s.net.engine.Denied(to, netip.AddrPort{}, v)
	if e := l.event(api.EventNetwork); e.Network.Kind != policy.EventDeny || e.Network.Target != to.Address {
		t.Errorf("%+v", e.Network)
	}
	tree, err := l.s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(tree)
	if err != nil || !strings.Contains(string(text), `"state":"allowlist"`) || !strings.Contains(string(text), `"denied":"1"`) {
		t.Errorf("%v: %s", err, text)
	}
}

// What is answered for the project or for always is not asked again, by this session or
// another one.
func TestAnswersAreKept(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	asking := func(c *api.Config) { c.Network.Mode = policy.Ask }
	first, second := newLab(t, 1, asking), newLab(t, 1, asking)
	question := func(name string) policy.Question { return policy.Question{Lookup: true, Domain: name} }
	answer := func(l *lab, name, scope string, allow bool) {
		t.Helper()
		answers := make(chan policy.Answer, 1)
		go func() {
			a, err := l.s.askNetwork(t.Context(), question(name))
			if err != nil {
				t.Error(err)
			}
			answers <- a
		}()
		p := l.event(api.EventSafeguardTriggered).Pending
		if err := l.s.Decide(t.Context(), api.DecideRequest{ID: p.ID, Allow: allow, Scope: "for ever"}); err == nil {
			t.Error("decided with an unknown scope")
		}
		if err := l.s.Decide(t.Context(), api.DecideRequest{ID: p.ID, Allow: allow, Scope: scope, By: "test"}); err != nil {
			t.Fatal(err)
		}
		if a := actortest.Within(t, "answer", answers); a.Allow != allow || a.Once != (scope == "once") {
			t.Errorf("%s, %s: %+v", name, scope, a)
		}
	}
	answer(first, "everywhere.test", "user", true)
	answer(first, "never.test", "user", false)
	answer(first, "here.test", "project", true)
	answer(first, "once.test", "once", true)
	answer(second, "here.test", "project", false) // asked again: it is another folder
	answer(second, "once.test", "", true)
	for _, c := range []struct {
		l     *lab
		name  string
		allow bool
	}{{second, "everywhere.test", true}, {second, "never.test", false}, {first, "here.test", true}, {second, "here.test", false}} {
		a, err := c.l.s.askNetwork(t.Context(), question(c.name)) // returns, although nobody answers
		if err != nil || a.Allow != c.allow {
			t.Errorf("%s: %+v, %v", c.name, a, err)
		}
	}
	if err := second.s.Close(t.Context()); err != nil { // the audit is written
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(second.s.dirs[0].Config.UndoDir, "decisions.jsonl"))
	if err != nil || strings.Count(string(text), `"by":"kept answer"`) != 3 {
		t.Errorf("audit: %v, %s", err, text)
	}
}
