package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/fsbridge/virtiofs"
	"github.com/codeagent/sandbox/tests/kit/direct"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestInside (VF-05) runs the tests of tests/suite/vm/inside as root in a guest: what
// POSIX says holds on the mount, and an attacker gets nothing but errors, while
// all of it is one step that can be undone.
func TestInside(t *testing.T) {
	require.Root(t) // in one of CI's passes
	base, err := os.MkdirTemp("/var/tmp", "vfi")
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(base)) })
	host, ro := filepath.Join(base, "host"), filepath.Join(base, "ro")
	for dir, content := range map[string]string{host: "first", ro: "fixed"} {
		check(t, os.Mkdir(dir, 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "a"), []byte(content), 0o644))
	}
	buildInside(t, filepath.Join(host, "inside"))
	var m *machine
	s, err := direct.Open(t.Context(), direct.Options{Dir: host, Undo: filepath.Join(base, "undo"), Socket: filepath.Join(base, "s0")})
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	root, err := hostfs.OpenRoot(ro)
	check(t, err)
	t.Cleanup(func() { check(t, root.Close()) })
	readOnly, err := virtiofs.Listen(filepath.Join(base, "s1"), virtiofs.Options{Tree: vfs.Options{Root: root, ReadOnly: true}})
	check(t, err)
	t.Cleanup(func() { check(t, readOnly.Close()) })
	cable, web, served := serveCable(t, filepath.Join(base, "net"))
	m = startWith(t, cable, filepath.Join(base, "s0"), filepath.Join(base, "s1"))
	before, outside := treesnap.MustTake(t, host), treesnap.MustTake(t, ro)

	_, err = s.Step(t.Context(), "inside", func() error {
		m.run("mkdir -p /t; cp /w/inside /t/; echo 1 >/proc/sys/kernel/printk; cd /t")
		for _, name := range []string{"Posix", "ReadOnlyFolder", "Mount", "Queues"} {
			t.Run(name, func(t *testing.T) {
				out, status := m.try("cd /t; TMPDIR=/t ./inside -test.v -test.run '^Test" + name + "$' 2>&1")
				if status != "0" || !strings.Contains(out, "--- PASS: Test"+name) {
					t.Errorf("exit %s\n%s", status, out)
				}
				t.Logf("%d passed", strings.Count(out, "--- PASS"))
			})
		}
		m.run("sync")
		return nil
	})
	check(t, err)
	t.Run("Frames", func(t *testing.T) {
		m.run("ip link set eth0 up && ip addr add 10.0.2.15/24 dev eth0 && ip route add default via 10.0.2.2")
		out, status := m.try("cd /t; WEB=" + web + " ./inside -test.v -test.run '^TestFrames$' 2>&1")
		if status != "0" || !strings.Contains(out, "--- PASS: TestFrames") {
			t.Errorf("exit %s\n%s", status, out)
		}
		served(t)
	})
	check(t, s.Undo(t.Context(), 1))
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, host))
	treesnap.AssertEqual(t, outside, treesnap.MustTake(t, ro))
}
