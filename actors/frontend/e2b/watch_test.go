package e2b

import (
	"slices"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// TestTranslator: what the log and the API do to names is told as clients expect it.
func TestTranslator(t *testing.T) {
	type events = []api.PathEvent
	list := func(pairs ...string) (l events) {
		for pair := range slices.Chunk(pairs, 2) {
			l = append(l, api.PathEvent{Type: pair[0], Path: pair[1]})
		}
		return l
	}
	created, renamed, written, removed := api.PathCreated, api.PathRenamed, api.PathWritten, api.PathRemoved
	for _, c := range []struct {
		what     string
		in, want events
	}{
		{"a removal, which the log makes a rename", list(renamed, "a"), list(removed, "a")},
		{"two removals", list(renamed, "a", renamed, "b"), list(removed, "a", removed, "b")},
		{"a rename", list(renamed, "a", created, "b"), list(renamed, "a", created, "b")},
		{"a removal before something else", list(renamed, "a", written, "b"), list(removed, "a", written, "b")},
		{"a file that the API writes", list(created, "d/.sandbox-1", written, "d/.sandbox-1", renamed, "d/.sandbox-1", created, "d/f"), list(created, "d/f", written, "d/f")},
		{"one after a removal", list(renamed, "a", created, ".sandbox-1", renamed, ".sandbox-1", created, "f"), list(removed, "a", created, "f", written, "f")},
	} {
		clock := actortest.NewFakeClock()
		var got events
		tr := &translator{after: clock.AfterFunc, emit: func(e api.PathEvent) error { got = append(got, e); return nil }}
		for _, e := range c.in {
			if err := tr.event(e); err != nil {
				t.Fatal(err)
			}
		}
		clock.Advance(time.Second)
		tr.end()
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	tr := &translator{}
	if err := tr.event(api.PathEvent{Type: api.PathOverflow}); err == nil {
		t.Error("events were lost, and nobody is told")
	}
}
