package escape

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
)

// TestSecretsInWorkingFolder: the home directory is the working folder. Its
// secrets, the undo log and the control socket stay out of reach whatever makes
// the kernel forget the names: a rollback, edits from outside, renames.
func TestSecretsInWorkingFolder(t *testing.T) { overBridges(t, secretsInWorkingFolder) }

func secretsInWorkingFolder(t *testing.T, b hypervisor.Bridge) {
	outside := ""
	l := newLab(t, func(l *lab, c *api.Config) {
		c.Bridge = b
		for _, p := range []string{".ssh/id", ".config/gh/hosts.yml", ".netrc", ".aws/credentials", "notes", "d/x"} {
			put(t, filepath.Join(l.home, p), "secret of "+p)
		}
		outside = l.home + ".undo"
		t.Cleanup(func() { must(t, os.RemoveAll(outside)) })
		c.Directories = []api.Directory{{Path: l.home, UndoDir: outside}}
		c.Show = []string{l.home + "/.aws"}
	})
	try := func(when string) {
		t.Helper()
		for _, p := range []string{".ssh/id", ".config/gh/hosts.yml", ".netrc"} {
			l.refused("cat "+p, "secret of")
			l.refused("rm -rf "+p+"; test ! -e "+p+" && echo x >"+p, "")
		}
		for _, p := range []string{".ssh", "run", ".config/gh"} {
			l.refused("ls "+p, "")
			l.refused("mv "+p+" here", "")
		}
		if b == hypervisor.BridgeMediated {
			l.refused("grep -rs 'secret of' .ssh .config .netrc", "secret of") // names can be listed: they are covered by mounts
		} else if out := l.works("ls -A; find . -name id; grep -rs 'secret of' .ssh .config .netrc || true"); contains(out, ".ssh", ".netrc", "run", "./.ssh/id") || strings.Contains(out, "secret of") {
			t.Errorf("%s: listed: %s", when, out)
		}
		l.works("cat .aws/credentials notes")
	}
	try("at the start")

	l.works("rm -r d; echo x >notes; mv .config c; mkdir .config")
	l.refused("cat c/gh/hosts.yml", "secret of")
	if _, err := l.Undo(t.Context(), api.UndoRequest{Count: 1}); err != nil {
		t.Fatal(err)
	}
	try("after a rollback")

	if b == hypervisor.BridgeMediated {
		return // a mount covers what was there at the start: hypervisor/jail says so
	}
	must(t, os.Rename(filepath.Join(l.home, ".netrc"), filepath.Join(l.home, "old")))
	put(t, filepath.Join(l.home, ".netrc"), "secret of another")
	must(t, os.Rename(filepath.Join(l.home, ".ssh"), filepath.Join(l.home, "ssh-old")))
	put(t, filepath.Join(l.home, ".ssh/id"), "secret of another")
	l.refused("cat old", "secret of")
	l.refused("cat ssh-old/id", "secret of")
	try("after an edit from outside")
	if b, err := os.ReadFile(filepath.Join(l.home, ".ssh/id")); err != nil || string(b) != "secret of another" {
		t.Errorf("%q, %v", b, err)
	}
}

// contains tells whether one of the lines is in the output.
func contains(out string, lines ...string) bool {
	return slices.ContainsFunc(strings.Split(out, "\n"), func(l string) bool { return slices.Contains(lines, l) })
}
