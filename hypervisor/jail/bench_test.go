//go:build linux

package jail_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
)

// BenchmarkStart compares /bin/true in a fresh jail with the same by bubblewrap:
// the time from nothing to its exit status.
func BenchmarkStart(b *testing.B) {
	need(b)
	b.Run("jail", func(b *testing.B) {
		dir := b.TempDir()
		for b.Loop() {
			g, err := newRuntime().Start(context.Background(), hypervisor.Config{UID: -1, GID: -1, Shares: []hypervisor.Share{share(dir, nil)}})
			if err != nil {
				b.Fatal(err)
			}
			p, err := g.Exec(context.Background(), hypervisor.Command{ID: 1, Argv: []string{"/bin/true"}, Dir: dir})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := p.Wait(context.Background()); err != nil {
				b.Fatal(err)
			}
			if err := g.Stop(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("command", func(b *testing.B) {
		j := start(b, nil)
		for b.Loop() {
			if _, st, err := j.run("/bin/true"); err != nil || st.Code != 0 {
				b.Fatal(err, st)
			}
		}
	})
	b.Run("bubblewrap", func(b *testing.B) {
		path, err := exec.LookPath("bwrap")
		if err != nil {
			b.Skip("needs the program bwrap: apt-get install bubblewrap")
		}
		for b.Loop() {
			cmd := exec.Command(path, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--unshare-all", "--die-with-parent", "/bin/true")
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}
