package approvals

import (
	"reflect"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		mode        policy.Mode
		allow, deny string
		host        string
		action, why string
	}{
		{policy.Disabled, "", "", "a.example", "deny", "there is no network"},
		{policy.Allowlist, "", "", "a.example", "deny", "not in the allow list"},
		{policy.Allowlist, "*.example", "", "a.example", "allow", "*.example"},
		{policy.Allowlist, "a.example:443", "", "a.example", "allow", "a.example:443"},
		{policy.Allowlist, "a.example:443", "", "a.example:80", "deny", "not in the allow list"},
		{policy.Ask, "", "", "a.example:22", "ask", "no rule names it"},
		{policy.Ask, "a.example", "", "a.example:22", "allow", "a.example"},
		{policy.Open, "", "", "a.example", "allow", "open"},
		{policy.Open, "", "a.example", "a.example", "deny", "denied by the rule a.example"},
		{policy.Open, "", "", "127.0.0.1:80", "deny", "protected: loopback"},
		{policy.Open, "127.0.0.1:80", "", "127.0.0.1:80", "allow", "127.0.0.1:80"},
		{policy.Allowlist, "", "", "[2001:db8::1]:80", "deny", "not in the allow list"},
		{policy.Open, "", "", "[::1]:80", "deny", "protected: loopback"},
	} {
		a, err := explainHost(t.Context(), policy.Network{Mode: c.mode, Allow: strings.Fields(c.allow), Deny: strings.Fields(c.deny)}, c.host)
		if err != nil || a.Action != c.action || a.Why != c.why {
			t.Errorf("%s allow=%q deny=%q %s: %+v, %v", c.mode, c.allow, c.deny, c.host, a, err)
		}
	}
}

// What is explained is the view of the session, with all that the configuration says of it: with --containers a named pipe can be written to.
func TestViewOfTheSession(t *testing.T) {
	cfg := api.Config{Jail: hypervisor.Jail{Hide: []string{"/h"}, NoExec: []string{"/x"}, Gates: []string{"/g"}, Dynamic: true, Containers: true, Debug: true}}
	if v := viewOf(cfg); !reflect.DeepEqual(v.Jail, cfg.Jail) {
		t.Errorf("%+v, want %+v", v.Jail, cfg.Jail)
	}
}

func FuzzSplitHost(f *testing.F) {
	for _, s := range []string{"a.example", "a.example:443", "[::1]:80", "::1", "1.2.3.4:0", "a:b", ":1", "*", "a b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host, port, err := splitHost(s)
		if err == nil && (host == "") {
			t.Fatalf("%q: %q %d", s, host, port)
		}
	})
}
