package confine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// TestW1Proven: a thread whose rules let it read what is hidden, or write in a folder, starts nothing, and says why.
func TestW1Proven(t *testing.T) {
	if err := abi(); err != nil {
		t.Skip(err) // CI has such a kernel: tests/suite/escape requires it
	}
	dir := t.TempDir()
	for _, name := range []string{"hidden/deep", "folder"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	hidden, folder := filepath.Join(dir, "hidden"), filepath.Join(dir, "folder")
	key := filepath.Join(hidden, "deep/key")
	if err := os.WriteFile(key, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rules func(r *ruleset)
		want  string
	}{
		{func(r *ruleset) { r.allow(dir, kept) }, key + " is to be hidden"},
		{func(r *ruleset) { r.allow(folder, kept) }, folder + " can be written"},
		{func(r *ruleset) {}, "executing the shim"}, // which is not there
	} {
		r, err := newRuleset(handled, false)
		if err != nil {
			t.Fatal(err)
		}
		c.rules(r)
		b := &birth{domain: int(r.File().Fd()), tried: newPromises([]string{folder}, []string{hidden, filepath.Join(dir, "none")}, ""), path: "/nowhere",
			filter: allowing, config: control.ShimConfig{Confined: true}, kills: make(chan struct{}), end: make(chan struct{})}
		if err := errors.Join(r.err, b.start()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		_ = r.Close()
	}
}

// allowing is a filter that allows everything.
var allowing = []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
