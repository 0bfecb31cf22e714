package actors

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/fsbridge/gate"
)

// Rules about reading answer the gate. One opens a directory only if it allows all of it, and none says otherwise of a part.
func TestRuledRead(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	book := approval.NewBook(approval.Places{User: filepath.Join(dir, "policy.json"), State: dir, Project: "/work"}, func() time.Time { return now })
	for _, r := range []approval.Rule{
		{Subject: "/opt/sdk/**", Action: approval.Allow},
		{Subject: "/opt/part/**", Action: approval.Allow},
		{Subject: "/opt/part/keys/**", Action: approval.Ask},
		{Subject: "/opt/mixed/**", Action: approval.Allow},
		{Subject: "/opt/mi*/key", Action: approval.Deny},
		{Subject: "/opt/one", Action: approval.Allow},
		{Subject: "/opt/no/**", Action: approval.Deny},
		{Subject: "/opt/over/**", Action: approval.Deny},
		{Subject: "/opt/over/yes/**", Action: approval.Allow},
		{Subject: "/opt/asked/**", Action: approval.Ask},
		{Subject: "/opt/for/**", Action: approval.Allow, Until: now.Add(time.Hour)},
	} {
		r.Operation, r.Scope = approval.Read, approval.Session
		if _, err := book.Remember(r); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path string
		dir  bool
		want approval.Action
	}{
		{"/opt/sdk", true, approval.Allow},
		{"/opt/sdk/x", false, approval.Allow},
		{"/opt/part", true, approval.None},
		{"/opt/part/lib", true, approval.Allow},
		{"/opt/part/keys", true, approval.None},
		{"/opt/mixed", true, approval.None},
		{"/opt/one", false, approval.Allow},
		{"/opt/one", true, approval.None}, // a rule about a name alone opens no directory
		{"/opt/no", true, approval.Deny},
		{"/opt/no/x", false, approval.Deny},
		{"/opt/over", true, approval.Deny},
		{"/opt/over/yes", true, approval.Allow},
		{"/opt/asked", true, approval.None},
		{"/opt/other", true, approval.None},
		{"/opt/for", true, approval.Allow},
	} {
		if d := ruledRead(book, gate.Question{Path: c.path, Dir: c.dir}, now); d.Action != c.want {
			t.Errorf("%s (directory: %v): %q, want %q: %s", c.path, c.dir, d.Action, c.want, d.Why)
		}
	}
	opened := slices.Sorted(maps.Keys(openedByRules(book, now)))
	if !slices.Equal(opened, []string{"/opt/over/yes", "/opt/sdk"}) {
		t.Errorf("open from the start: %q", opened)
	}
	now = now.Add(2 * time.Hour)
	if d := ruledRead(book, gate.Question{Path: "/opt/for", Dir: true}, now); d.Action != approval.None {
		t.Errorf("a rule that has ended: %q", d.Action)
	}
}
