package house

import (
	"path/filepath"
	"strings"
	"testing"
)

// root is the module's.
var root = filepath.Join("..", "..", "..")

// mostLines is how long a file may be that is no test.
const mostLines = 500

func TestArrows(t *testing.T) {
	packages, err := readPackages(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 40 {
		t.Fatalf("read only %d packages", len(packages))
	}
	for _, complaint := range check(packages) {
		t.Error(complaint)
	}
}

func TestNoFileIsTooLarge(t *testing.T) {
	packages, err := readPackages(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		for file, n := range p.lines {
			if n > mostLines {
				t.Errorf("%s/%s has %d lines: a file has at most %d", p.path, file, n, mostLines)
			}
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	packages, err := readPackages(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		if p.path != "tests" && !p.documented { // tests has only a list of tools
			t.Errorf("%s: no doc.go with the package's documentation", p.path)
		}
	}
}

// TestRulesAreSeen breaks each rule once.
func TestRulesAreSeen(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"cmd/sandbox", "actors", ""},
		{"tests/kit", "cmd/sandbox", ""},
		{"new/room", "messages", "a top-level folder without a room"},
		{"fsbridge/vfs", "hypervisor", "fsbridge may use only"},
		{"messages", "supervision", "messages may use only"},
		{"fsbridge/undolog/internal/store", "fsbridge/vfs", "the log knows no bridge"},
		{"fsbridge/mediate/internal/notify", "fsbridge/undolog", "a bridge reaches the log"},
		{"fsbridge/fuse", "fsbridge/ninep", "transports do not know each other"},
		{"fsbridge/hostfs", "fsbridge", "it stands at the bottom"},
		{"actors/step", "actors", "does not know the composition"},
		{"actors/api", "actors/step", "the facade knows no actor"},
		{"actors/frontend/mcp", "actors/step", "a frontend knows the facade"},
		{"actors/frontend/mcp", "actors/api", ""},
		{"hypervisor/qemu", "hypervisor/jail/places", "runtimes do not know each other"},
		{"hypervisor/confine", "hypervisor/jail", ""},
		{"hypervisor/network/policy", "hypervisor/jail", "it knows no runtime"},
		{"cmd/sandbox/internal/shortcut", "cmd/sandbox/internal/config", "initialised before all else"},
		{"cmd/sandbox/internal/shortcut", "hypervisor/inherit", ""},
	} {
		wrong := check([]pack{{path: c.from, imports: []string{c.to}}})
		switch {
		case c.want == "" && len(wrong) > 0:
			t.Errorf("%s imports %s: complains %q", c.from, c.to, wrong)
		case c.want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], c.want)):
			t.Errorf("%s imports %s: complains %q, not of %q", c.from, c.to, wrong, c.want)
		}
	}
}
