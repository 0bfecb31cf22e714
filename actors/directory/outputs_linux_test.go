package directory

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// TestU20OutputsAreNoEdits: a log that the caller gave, or that a reader of its pipe writes, is none of the others; what stands
// beside it is. When the command has ended and its last writes were heard of, all are.
func TestU20OutputsAreNoEdits(t *testing.T) {
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "build.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, name := range []string{"edit", "tee.log"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	tee := exec.Command("sh", "-c", "exec 5>>tee.log; echo ready; cat >&5")
	tee.Dir, tee.Stdin = dir, r
	ready, err := tee.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tee.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close(); _ = tee.Wait() }()
	if _, err := ready.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	all := []string{"build.log", "edit", "gone", "tee.log"}
	clock := actortest.NewFakeClock()
	o := NewOutputs(clock)
	if got := o.Others(dir, all); !slices.Equal(got, all) {
		t.Errorf("without commands: %q", got)
	}
	one, two := o.Add(log, log), o.Add(w, nil)
	if got, want := o.Others(dir, all), []string{"edit", "gone"}; !slices.Equal(got, want) {
		t.Errorf("while they run: %q, not %q", got, want)
	}
	one()
	two()
	if got, want := o.Others(dir, all), []string{"edit", "gone"}; !slices.Equal(got, want) {
		t.Errorf("at their end: %q, not %q", got, want)
	}
	clock.Advance(linger)
	if got := o.Others(dir, all); !slices.Equal(got, all) {
		t.Errorf("later: %q", got)
	}
}
