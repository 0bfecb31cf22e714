package jail

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
)

// A folder is bare if nothing is mounted below it: not on the host, not another folder and
// nothing that hides a secret.
func TestBareFolders(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"plain", "mounted/sub", "outer/inner", "secret"} {
		if err := os.MkdirAll(path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path("secret/key"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := hypervisor.Config{UID: -1, GID: -1, Jail: hypervisor.Jail{Hide: []string{path("secret/key")}}}
	for _, name := range []string{"plain", "mounted", "outer", "outer/inner", "secret"} {
		cfg.Shares = append(cfg.Shares, hypervisor.Share{HostPath: path(name)})
	}
	u, err := chooseAccount(cfg.UID, cfg.GID)
	if err != nil {
		t.Fatal(err)
	}
	table := []places.MountEntry{{Dev: "8:1", Root: "/", Point: "/"}, {Dev: "0:99", Root: "/", Point: path("mounted/sub")}, {Dev: "0:98", Root: "/", Point: path("plain")}}
	p, _, err := makePlan(cfg, u, table, true, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []bool{true, false, false, true, false}; !slices.Equal(p.bare, want) {
		t.Errorf("bare: %v, want %v", p.bare, want)
	}
}
