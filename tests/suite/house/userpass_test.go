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
	var without [][]string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		if leaves, ok := strings.CutPrefix(line, "~"); ok {
			without = append(without, strings.Fields(leaves))
			continue
		}
		pkg, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.TrimSpace(why) == "" {
			t.Errorf("%q: no reason", pkg)
		}
		listed[pkg] = true
	}
	for _, leaves := range without {
		if why := mustStay(leaves, listed); why != "" {
			t.Errorf("tests/user-pass.txt: ~%s: %s", strings.Join(leaves, " "), why)
		}
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

// mustStay tells why a test must not be left out of the ordinary user's pass, or "". leaves are the words of a line: a package, a test,
// and the reason.
func mustStay(leaves []string, listed map[string]bool) string {
	if len(leaves) < 3 {
		return "want a package, a test and a reason"
	}
	pkg, name := leaves[0], leaves[1]
	if !listed[pkg] {
		return "its package has no such pass"
	}
	for other := range listed {
		body, err := testNamed(other, name)
		if err != nil {
			return err.Error()
		}
		if asks := asksWho.FindString(body); asks != "" {
			return "the test asks who runs it: " + asks
		}
		if (body != "") != (other == pkg) { // go test takes one pattern for all packages
			return "there is no such test, or another package has one of that name: " + other
		}
	}
	return ""
}

// testNamed is the text of a test of a package, or "".
func testNamed(pkg, name string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if _, body, found := strings.Cut(string(text), "\nfunc "+name+"("); found {
			body, _, _ = strings.Cut(body, "\n}\n")
			return body, nil
		}
	}
	return "", nil
}

// TestMustStay is what mustStay refuses.
func TestMustStay(t *testing.T) {
	listed := map[string]bool{"tests/kit/require": true, "cmd/sandbox": true, "tests/suite/semantics": true}
	for line, want := range map[string]string{
		"cmd/sandbox TestHelp":                       "want a package",
		"fsbridge/nobody TestHelp a text":            "no such pass",
		"cmd/sandbox TestNobody a text":              "no such test",
		"tests/suite/semantics TestD10Others rights": "asks who",
		"cmd/sandbox TestHelp a text":                "",
	} {
		if got := mustStay(strings.Fields(line), listed); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
