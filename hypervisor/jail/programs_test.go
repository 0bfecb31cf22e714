//go:build linux

package jail_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
)

// TestD8Programs: where installers put programs for a user can be written, also where the host has no such directory. What is
// there inside is there for the next session, and the host gets nothing of it. All else is as the home directory is.
func TestD8Programs(t *testing.T) {
	for _, overlay := range []bool{true, false} {
		home := ownHome(t)
		moved := filepath.Join(home, "moved")
		t.Setenv("GOBIN", "")
		t.Setenv("PYTHONUSERBASE", moved)
		t.Setenv("NPM_CONFIG_PREFIX", home)
		put(t, home, "go/src/f", "host")
		put(t, home, ".gem/credentials", "secret")
		put(t, home, ".rustup/settings.toml", "host")
		store := places.Store{Dir: filepath.Join(t.TempDir(), "store")}
		p := withPlaces(hypervisor.Places{Store: store.Dir, Caches: true, Home: overlay})
		dirs := []string{"go/bin", "moved/bin", "bin", "lib", ".rustup/toolchains", ".gem/ruby"}
		j := start(t, p)
		for _, dir := range dirs {
			at := filepath.Join(home, dir)
			j.sh("mkdir -p " + at + " && printf '#!/bin/sh\necho installed\n' >" + at + "/tool && chmod 755 " + at + "/tool")
			same(t, filepath.Join(at, "tool"), "")
		}
		j.refused("cat ~/.gem/credentials", "No such")
		j.refused("touch ~/go/src/more", "Read-only")
		if put(t, home, "go/src/later", "host"); !overlay {
			j.refused("touch ~/go/more", "Read-only")
			j.refused("touch ~/more", "Read-only")
			j.refused("mkdir ~/.moved", "Read-only")
		}
		if out := j.sh("cat ~/go/src/later ~/.rustup/settings.toml"); out != "hosthost" {
			t.Errorf("inside: %q", out)
		}
		stop(t, j)
		j = start(t, p) // the next
		for _, dir := range dirs {
			if out := j.sh(filepath.Join(home, dir, "tool")); out != "installed" {
				t.Errorf("%s: in the next session: %q", dir, out)
			}
		}
		stop(t, j)
		if _, err := os.Lstat(moved); err == nil {
			t.Errorf("the host has %s", moved)
		}
		list, err := store.List()
		at := slices.IndexFunc(list, func(e places.Entry) bool { return strings.HasSuffix(e.Path, "/go/bin") })
		if err != nil || at < 0 {
			t.Fatalf("%v, %v", list, err)
		}
		if done, err := list[at].Apply(nil); err != nil || len(done.Skipped) > 0 {
			t.Errorf("Apply: %+v, %v", done, err)
		}
		same(t, filepath.Join(home, "go/bin/tool"), "#!/bin/sh\necho installed\n")
	}
}
