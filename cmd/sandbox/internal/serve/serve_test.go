package serve

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

func TestAdvice(t *testing.T) {
	conf := config.New()
	for policy, asked := range map[string][2]bool{"all": {false, false}, "read-only": {false, true}, "none": {true, true}} {
		if err := conf.SetFlag("auto-approve", []string{policy}); err != nil {
			t.Fatal(err)
		}
		d, err := newAdvice(conf)
		if err != nil {
			t.Fatal(err)
		}
		for i, argv := range [][]string{{"sh", "-c", "ls | wc -l"}, {"rm", "-r", "x"}} {
			if q := d.question(argv); (q != "") != asked[i] {
				t.Errorf("%s, %q: %q", policy, argv, q)
			}
		}
		if q := d.question([]string{"sh", "-c", "rm " + strings.Repeat("x", 100_000)}); len(q) > 2000 {
			t.Errorf("a question of %d bytes", len(q))
		}
	}
	if q := (&advice{k: mustAdvice(t, conf).k, policy: "none"}).question([]string{"echo", "a\xffb"}); !strings.Contains(q, "echo a\uFFFDb") {
		t.Errorf("%q", q)
	}
}

func mustAdvice(t *testing.T, conf *config.Set) *advice {
	t.Helper()
	d, err := newAdvice(conf)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestGuardedKeepsLocks(t *testing.T) {
	locked := errors.New("locked")
	var asked []string
	g := guarded{Live: &fakeLive{}, locked: func(keys ...string) error {
		asked = keys
		if len(keys) > 0 {
			return locked
		}
		return nil
	}}
	if err := g.ConfigureSafeguards(t.Context(), api.Safeguards{}); err != nil {
		t.Errorf("no change: %v", err)
	}
	if err := g.ConfigureSafeguards(t.Context(), api.Safeguards{DeleteThreshold: 5}); !errors.Is(err, locked) || len(asked) != 1 || asked[0] != "safeguards.deletes" {
		t.Errorf("%v, asked for %v", err, asked)
	}
	// Each key of the group is looked at, not only those that a frontend can change today; an empty list is none.
	if err := g.ConfigureSafeguards(t.Context(), api.Safeguards{Protect: true, Exempt: []string{}}); !errors.Is(err, locked) || len(asked) != 1 || asked[0] != "safeguards.protect" {
		t.Errorf("%v, asked for %v", err, asked)
	}
	limits, _ := g.Limits(t.Context(), "")
	limits.StepCount = 3
	if err := g.ConfigureLimits(t.Context(), "", limits); !errors.Is(err, locked) || len(asked) != 1 || asked[0] != "undo.max_steps" {
		t.Errorf("%v, asked for %v", err, asked)
	}
}

// fakeLive has default settings and takes any.
type fakeLive struct{ api.Live }

func (fakeLive) Safeguards(context.Context) (api.Safeguards, error) {
	return api.Safeguards{}, nil
}
func (fakeLive) ConfigureSafeguards(context.Context, api.Safeguards) error     { return nil }
func (fakeLive) Limits(context.Context, string) (undolog.Limits, error)        { return undolog.Limits{}, nil }
func (fakeLive) ConfigureLimits(context.Context, string, undolog.Limits) error { return nil }
