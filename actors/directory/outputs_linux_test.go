package directory

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
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
	o := NewOutputs(clock, nil)
	if got := o.Others(dir, all); !slices.Equal(got, all) {
		t.Errorf("without commands: %q", got)
	}
	one, two := o.Add(api.RunRequest{Stdout: log, Stderr: log}), o.Add(api.RunRequest{Stdout: w})
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

// TestInheritedFilesAreOutputs: what the caller has opened for writing is the command's output, whichever descriptor it is, with a terminal
// besides, too, and when the caller has closed it. What is open for reading alone can be edited by others only.
func TestInheritedFilesAreOutputs(t *testing.T) {
	dir := t.TempDir()
	open := func(name string, mode int) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, name), mode|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	further := []hypervisor.Descriptor{
		{Number: 8, File: open("read", os.O_RDONLY)}, {Number: 9, File: open("written", os.O_WRONLY)}, {Number: 12, File: open("both", os.O_RDWR)},
	}
	o := NewOutputs(actortest.NewFakeClock(), nil)
	defer o.Add(api.RunRequest{
		Stdin: open("input", os.O_RDONLY), Stdout: open("log", os.O_WRONLY|os.O_APPEND), TTY: &hypervisor.TTY{Of: [3]bool{false, false, true}}, Further: further,
	})()
	for _, f := range hypervisor.Files(further) {
		_ = f.Close()
	}
	if got, want := o.Others(dir, []string{"both", "input", "log", "read", "written"}), []string{"input", "read"}; !slices.Equal(got, want) {
		t.Errorf("edits from outside: %q, not %q", got, want)
	}
}
