package vm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/hypervisor/landlock"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestSupervisorsWall: when the guest runs, no thread of its supervisor can open a file that the session does not need, and all of the folder. The step is undone all the same, and what 'tee' makes of the
// command's output in the folder is no edit from outside.
func TestSupervisorsWall(t *testing.T) {
	if version, err := landlock.Version(); version < landlock.Renames {
		t.Logf("not on this machine: %v", err)
		return
	}
	require.Program(t, "qemu-system-x86_64", "qemu-system-x86")
	images := guestimage.Dir(t)
	s := drive.NewFaulty(t, fill)
	cache := filepath.Join(s.State, "home", "cache", "sandbox")
	check(t, os.MkdirAll(cache, 0o755))
	check(t, os.Symlink(images, filepath.Join(cache, "guest")))
	outside, inside := filepath.Join(filepath.Dir(s.Dir), "outside"), filepath.Join(s.Dir, "a")
	check(t, os.WriteFile(outside, []byte("x"), 0o600))
	log := filepath.Join(s.Dir, "log")
	stamp := time.Unix(1700000000, 0)
	check(t, os.WriteFile(log, nil, 0o644))
	check(t, os.Chtimes(log, stamp, stamp))
	before := s.Snapshot(t)

	cmd := s.Command(t.Context(), inMachine("--log-level", "warn", "--", "sh", "-c", "rm a; mkdir d; mv b d; cat sub/c")...)
	cmd.Env = append(cmd.Env, "SANDBOX_PROBE="+outside+":"+inside)
	var said strings.Builder
	cmd.Stderr = &said
	tee := exec.Command("tee", log)
	r, w, err := os.Pipe()
	check(t, err)
	cmd.Stdout, tee.Stdin = w, r
	check(t, tee.Start())
	check(t, cmd.Start())
	check(t, w.Close())
	check(t, r.Close())
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	check(t, tee.Wait())
	for path, may := range map[string]string{outside: "false", inside: "true"} {
		if n := strings.Count(said.String(), `"path":"`+path+`","read":`+may+`,"write":`+may+`}`); n != 4 {
			t.Errorf("%s: %d of 4 threads are as they have to be (%s):\n%s", path, n, may, &said)
		}
	}
	s.Must(t, "undo")
	if written, err := os.ReadFile(log); err != nil || string(written) != "third\n" {
		t.Errorf("the log has %q, %v", written, err)
	}
	check(t, os.Truncate(log, 0))
	check(t, os.Chtimes(log, stamp, stamp))
	treesnap.AssertEqual(t, before, s.Snapshot(t))
	s.CheckResidue(t)
}
