package jail_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
)

// TestMediatedReopen: a descriptor on the host's mount cannot be opened for writing by
// its name in /proc, whoever asks for what; the guest's own places work as ever.
func TestMediatedReopen(t *testing.T) {
	var a answering
	j := start(t, a.mediated(t))
	for _, dir := range []string{j.dir, inDev(t)} {
		notReopened(t, j, filepath.Join(dir, "f"))
	}
	j.sh(`set -e
		echo x >/dev/null; ! test -O /proc/self/fd/2 || echo x >/dev/stderr
		mkdir /tmp/a /tmp/b; echo x >/tmp/a/f; mv /tmp/a/f /tmp/b/; ln /tmp/b/f /tmp/a/g; mv /tmp/a /tmp/b/c
		mkfifo /tmp/p; cat /tmp/p & echo y >/tmp/p; wait
		exec 3>/tmp/h; echo z >/proc/self/fd/3; echo z >/dev/shm/f; : >/tmp/h
		echo 0 >/proc/self/oom_score_adj`)
}

// inDev is a new directory below the host's /dev, where its devices are.
func inDev(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "sandbox-test-")
	if err != nil {
		t.Logf("nothing can be made in /dev/shm: %v", err)
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// notReopened fails if a guest that was started with file as its standard input changes it.
func notReopened(t *testing.T, j *jailed, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte("kept"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for _, script := range []string{"echo x >>/proc/self/fd/0", "echo x >/dev/stdin", "exec 3<>/dev/fd/0", "truncate -s 0 /proc/self/fd/0"} {
		p, err := j.Exec(t.Context(), hypervisor.Command{ID: j.nextID(), Argv: []string{"sh", "-c", script}, Dir: "/", Stdin: in})
		if err != nil {
			t.Fatal(err)
		}
		if st, err := p.Wait(t.Context()); err != nil || st.Code == 0 {
			t.Errorf("%s: %+v, %v", script, st, err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "kept" {
		t.Errorf("%q, %v", b, err)
	}
}
