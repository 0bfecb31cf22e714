package house

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// asksWho finds tests whose result may depend on the user that runs them.
var asksWho = regexp.MustCompile(`\brequire\.(Ordinary|AsUser|Root|Mount|FUSE|UserNamespaces|KVM)\(|\.Gete?[ug]id\(\)|"github.com/codeagent/sandbox/tests/kit/(drive|guestimage)"`)

// TestUserPass compares tests/user-pass.txt, by which tests/run.sh chooses what
// runs as an ordinary user too, with what the tests ask for.
func TestUserPass(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "tests", "user-pass.txt"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		pkg, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.TrimSpace(why) == "" {
			t.Errorf("%q: no reason", pkg)
		}
		listed[pkg] = true
	}
	packages, err := readPackages(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(p.path), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			asks := asksWho.FindString(string(text))
			if asks == "" || filepath.Base(file) == "userpass_test.go" {
				continue
			}
			if !listed[p.path] && !listed["-"+p.path] {
				t.Errorf("%s: %s uses %s: put the package into tests/user-pass.txt", p.path, filepath.Base(file), asks)
			}
		}
		delete(listed, p.path)
		delete(listed, "-"+p.path)
	}
	for _, pkg := range slices.Sorted(maps.Keys(listed)) {
		t.Errorf("tests/user-pass.txt: there is no package %s", pkg)
	}
}
