package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const source = `package p

func TestA(t *testing.T) { helper(t) }
func TestB(t *testing.T) {}
func TestC(t *testing.T) { box{}.method() }
func TestD(t *testing.T) { if os.Getuid() == 0 {} }
func TestE(t *testing.T) { other() }
func TestF(t *testing.T) { require.Turn(t) }
func TestH(t *testing.T) { disk.Full(t) }
func TestMain(m *testing.M) {}
func helper(t *testing.T) { deeper(t); helper(t) }
func deeper(t *testing.T) { require.Ordinary(t) }
func other() int { return os.Getuid() }
func (b box) method() {}
`

// TestBothPasses: with each number a test that asks runs in both passes, one of root's in root's, and another in one of them: in the
// other one with the next number.
func TestBothPasses(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		list:          "# a comment\np  a reason\n~p TestRoot  a reason\n~p TestScripts/x  a reason\n",
		"p/a_test.go": source,
		"p/a.go":      "package p\n\nfunc TestNot() {}\n",

		"tests/kit/require/r.go": "package require\n\nfunc Image(t testing.TB) { Root(t) }\nfunc Root(t testing.TB) {}\n",
		"tests/kit/disk/d.go":    "package disk\n\nfunc Full(t testing.TB) { require.Image(t) }\n",
		"q/b_test.go":            "package q\n\nfunc TestRoot(t *testing.T) {}\nfunc TestG(t *testing.T) {}\nfunc TestB(t *testing.T) { require.Root(t) }\n",
		"broken/_a.go":           "",
		"torn/a_test.go":         "package",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, c := range []struct{ args, want string }{
		{"-sample 0 p q", "^TestE$|^TestG$|^TestRoot$|^TestScripts$/^x$"},
		{"-sample 1 p q", "^TestC$|^TestRoot$|^TestScripts$/^x$"},
		{"-root -sample 0 p q", "^TestC$"},
		{"-root -sample 0 p", "^TestB$|^TestC$"}, // one that asks in q alone is left to the user, who has it with both
		{"-root -sample 1 q", "^TestG$"},
		{"-root -sample 1 p q", "^TestE$|^TestG$"},
		{"-sample 2 p", "^TestE$|^TestRoot$|^TestScripts$/^x$"},
		{"-root -sample all p", ""},
		{"-sample all p", "^TestRoot$|^TestScripts$/^x$"},
	} {
		var out bytes.Buffer
		if err := run(strings.Fields(c.args), &out); err != nil || out.String() != c.want+"\n" {
			t.Errorf("%s: %q, %v; want %q", c.args, &out, err, c.want)
		}
	}
	for _, args := range []string{"-sample x p", "-sample -1 p", "-sample 0 broken", "-sample 0 torn", "-sample 0 nowhere", "-what"} {
		if err := run(strings.Fields(args), &bytes.Buffer{}); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
}

// TestOfThisModule: what the tests of this module are has halves that are about as large, and those that ask are in none.
func TestOfThisModule(t *testing.T) {
	t.Chdir("../../..")
	tests, err := inTurn([]string{"cmd/sandbox", "hypervisor/jail", "tests/suite/vm"})
	if err != nil || len(tests) < 50 {
		t.Fatalf("%d tests, %v", len(tests), err)
	}
	for _, asks := range []string{"TestScripts", "TestGuestBuild", "TestArm64"} {
		if slices.Contains(tests, asks) {
			t.Errorf("%s asks who runs it", asks)
		}
	}
}
