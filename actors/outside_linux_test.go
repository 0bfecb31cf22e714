package actors

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
)

// TestU19UntouchedIsToldAtOnce: an edit of what nobody inside has touched is told however short the time since the last
// change inside, also while a step is open, and what was changed inside is not told with it.
func TestU19UntouchedIsToldAtOnce(t *testing.T) {
	l := newLab(t, 1, nil)
	edit := func(name, by string) {
		t.Helper()
		put(t, filepath.Join(l.dirs[0], name), "edited "+by)
		for { // an edit may be told in two parts
			e := l.event(api.EventExternalModification)
			if slices.ContainsFunc(e.Paths, func(p string) bool { return p != name && p != "f1" }) {
				t.Fatalf("told of %q, edited was %s", e.Paths, name)
			}
			if slices.Contains(e.Paths, name) {
				return
			}
		}
	}
	l.mustRun(func() error { return l.fs[0].WriteAt("f0", []byte("inside"), 0) })
	edit("f1", "after the step")
	ran, wrote, goOn := make(chan error, 1), make(chan error, 1), make(chan struct{})
	go func() {
		_, err := l.run(func(*fakeProcess) int {
			wrote <- l.fs[0].WriteAt("f2", []byte("inside"), 0)
			<-goOn
			return 0
		})
		ran <- err
	}()
	err := <-wrote
	edit("f3", "while the step is open")
	close(goOn)
	if err = errors.Join(err, <-ran); err != nil {
		t.Fatal(err)
	}
}
