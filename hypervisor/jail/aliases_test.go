//go:build linux

package jail_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// bind mounts source at a new directory until the test ends.
func bind(t *testing.T, source, target string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(target, 0o755), unix.Mount(source, target, "", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// TestMountAliases: a secret is hidden wherever else it is mounted: with all of
// the home, as a part, by itself, below another mount, and inside a folder.
func TestMountAliases(t *testing.T) {
	require.Root(t)
	home := newHome(t)
	for _, d := range []string{".ssh/deep", "plain", "mnt", "work"} {
		if err := os.MkdirAll(filepath.Join(home, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{".ssh/id", ".ssh/deep/id", ".netrc", "plain/file"} {
		if err := os.WriteFile(filepath.Join(home, f), []byte("content of "+f), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mnt := home + "/mnt/"
	bind(t, home, mnt+"all of it")
	bind(t, home+"/.ssh", mnt+"dir")
	bind(t, home+"/.ssh/deep", mnt+"part")
	bind(t, mnt+"dir", mnt+"again")
	bind(t, home+"/plain", mnt+"plain")
	bind(t, home+"/.ssh", home+"/work/ssh")
	var tr hypervisor.Transport
	j := start(t, func(c *hypervisor.Config) { c.Shares = append(c.Shares, share(home+"/work", &tr)) })
	for _, p := range []string{".ssh/id", ".netrc", "mnt/all of it/.ssh/id", "mnt/all of it/.ssh/deep/id", "mnt/all of it/.netrc", "mnt/dir/id", "mnt/dir/deep/id", "mnt/part/id", "mnt/again/id"} {
		j.refused("cat '"+home+"/"+p+"'", "Permission denied")
	}
	if out := j.sh("cat " + home + "/plain/file " + mnt + "plain/file"); strings.Count(out, "content of plain/file") != 2 {
		t.Error(out)
	}
	if len(tr.Hide) != 1 || tr.Hide[0] != "ssh" {
		t.Errorf("refused in the folder: %q", tr.Hide)
	}
}

// TestOverlappingMounts: folders that share files by another mount are refused.
func TestOverlappingMounts(t *testing.T) {
	require.Root(t)
	need(t)
	for name, c := range map[string]struct{ source, target, one, other string }{
		"the same":          {"a", "b", "a", "b"},
		"inside":            {"a", "b", "a/in", "b"},
		"outside":           {"a", "b", "a", "b/in"},
		"mounted in it":     {"a", "b/m", "a", "b"},
		"a part mounted":    {"a/in", "b/m", "a", "b"},
		"the whole mounted": {"a", "b/m", "a/in", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newHome(t)
			for _, d := range []string{"a/in", "b/in"} {
				if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			bind(t, filepath.Join(dir, c.source), filepath.Join(dir, c.target))
			g, err := newRuntime().Start(t.Context(), hypervisor.Config{Shares: []hypervisor.Share{
				share(filepath.Join(dir, c.one), nil), share(filepath.Join(dir, c.other), nil),
			}})
			if err == nil {
				_ = g.Stop(t.Context())
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), "only one of them") {
				t.Error(err)
			}
		})
	}
}
