//go:build linux

package jail

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail/account"
	"github.com/codeagent/sandbox/hypervisor/jail/mounts"
)

// BenchmarkPromises makes the calls by which a jail tries what its view promises, those of one start each time, in this process: here they succeed, and what they
// have opened is closed, so that each costs more than inside. The home directory has a file for each known secret, of which a user has a few.
func BenchmarkPromises(b *testing.B) {
	home, work := b.TempDir(), b.TempDir()
	for _, s := range hypervisor.HomeSecrets() {
		path := filepath.Join(home, s)
		if os.MkdirAll(filepath.Dir(path), 0o755) == nil {
			_ = os.WriteFile(path, nil, 0o600) // one lies below another one
		}
	}
	b.Setenv("HOME", home)
	u, err := account.Choose(-1, -1)
	if err != nil {
		b.Fatal(err)
	}
	u.Home = home
	listed, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		b.Fatal(err)
	}
	defer listed.Close()
	table, err := mounts.Parse(listed)
	if err != nil {
		b.Fatal(err)
	}
	p, _, err := makePlan(hypervisor.Config{UID: -1, GID: -1, Shares: []hypervisor.Share{{HostPath: work}}}, u, table, true, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, m := range p.promises {
			flags := unix.O_RDONLY
			switch m.kind {
			case unwritten:
				flags = unix.O_WRONLY
			case unextended:
				flags = unix.O_WRONLY | unix.O_TMPFILE
			}
			if fd, err := unix.Open(m.path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600); err == nil {
				_ = unix.Close(fd)
			}
		}
	}
	b.ReportMetric(float64(len(p.promises)), "promises")
}
