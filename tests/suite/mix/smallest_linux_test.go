package mix

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestSmallest: of a sandbox that undoes nothing, the smallest history is one change and its undo.
func TestSmallest(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "sandbox")
	const script = `#!/bin/sh
case $1 in
run) while [ "$1" != -- ]; do shift; done; shift; "$@"; echo "step 1: 1 path changed" >&2 ;;
history) echo "[]" ;;
esac
`
	if err := os.WriteFile(fake, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := place{base: t.TempDir(), program: fake, mutator: own, takes: time.Minute}
	tries := 0
	fails := func(part []event) bool {
		tries++
		_, err := p.try(part)
		return len(part) > 0 && part[0].what == "run" && err != nil
	}
	list := []event{{what: "run", seed: 1, n: 5}, {what: "run", seed: 2, n: 4}, {what: "pack"}, {what: "run", seed: 3, n: 12}, {what: "look"}, {what: "end"}}
	got := smallest(list, fails, func() bool { return true })
	ops := 0
	for _, e := range got {
		ops += e.n - len(e.out)
	}
	if len(got) != 3 || got[2].what != "end" || ops != 1 || !fails(got) {
		t.Errorf("after %d tries: %v", tries, got)
	}
	if few := fewer([]int{1, 2, 3, 4, 5, 6, 7}, func(l []int) bool { return slices.Contains(l, 3) && slices.Contains(l, 7) }, func() bool { return true }); !slices.Equal(few, []int{3, 7}) {
		t.Errorf("%v", few)
	}
}

// TestHistory: a history follows from its seed, and has all kinds of events.
func TestHistory(t *testing.T) {
	kinds := map[string]bool{}
	for seed := range uint64(20) {
		list := history(seed, 30)
		if again := history(seed, 30); !slices.EqualFunc(list, again, func(a, b event) bool { return a.String() == b.String() }) {
			t.Errorf("seed %d: %v, and then %v", seed, list, again)
		}
		for _, e := range list {
			kinds[e.what] = true
		}
	}
	for _, what := range []string{"run", "kill", "undo", "redo", "pack", "look", "restore", "end"} {
		if !kinds[what] {
			t.Errorf("no history has %q", what)
		}
	}
}
