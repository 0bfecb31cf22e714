package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPolicyTutorial does the tutorial of docs/policy.md as it is written there, and gets what
// is written there.
func TestPolicyTutorial(t *testing.T) {
	d := newDesk(t)
	home := filepath.Join(filepath.Dir(d.dir), "home")
	d.dir = filepath.Join(home, "project")
	bin := filepath.Join(filepath.Dir(home), "bin")
	for _, dir := range []string{filepath.Join(d.dir, "data"), filepath.Join(home, ".aws"), bin} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.write("../.aws/config", "secret\n")
	d.write("data/prices.csv", "1\n")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "sandbox")); err != nil {
		t.Fatal(err)
	}
	list := transcript(t, "docs/policy.md", "A tutorial")
	if len(list) < 10 {
		t.Fatalf("only %d commands", len(list))
	}
	d.env = append(d.env, "PATH="+bin+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8", "XDG_CONFIG_HOME="+filepath.Join(home, ".config"), "XDG_STATE_HOME="+filepath.Join(home, ".local", "state"))
	sh := &tourShell{t: t, d: d}
	rule, accept := regexp.MustCompile(`r-[0-9a-f]{10}|--accept [0-9a-f]{12}`), ""
	file := regexp.MustCompile(`policy/[0-9a-f]{16}\.json`)
	for _, c := range list {
		c.line = strings.ReplaceAll(c.line, "--accept ID", accept)
		got := strings.ReplaceAll(sh.do(c), home, "/home/me")
		if _, shown, ok := strings.Cut(got, "trust --accept "); ok {
			accept, _, _ = strings.Cut("--accept "+shown, "'")
		}
		got = file.ReplaceAllString(got, "policy/HASH.json")
		got = rule.ReplaceAllStringFunc(got, func(s string) string {
			if strings.HasPrefix(s, "r-") {
				return "r-ID"
			}
			return "--accept ID"
		})
		if have, want := steady(got), steady(c.output); have != want {
			t.Errorf("$ %s\nprints:\n%s\nand the document says:\n%s", c.line, have, want)
		}
	}
}
