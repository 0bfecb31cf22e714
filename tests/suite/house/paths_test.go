package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ways are how code says by itself that one path lies in another. messages/lexical says it.
var ways = []*regexp.Regexp{
	regexp.MustCompile(`(\w+), \w+ :?= filepath\.Rel\(.*\)(?:\n.*|; .*)filepath\.IsLocal\((\w+)\)`),
	regexp.MustCompile(`strings\.HasPrefix\([^,]+, [\w.]+ ?\+ ?("/"|string\(filepath\.Separator\))\)`),
}

// otherwise are the files that say it by themselves, and why.
var otherwise = map[string]string{
	"messages/lexical/lexical.go": "it is the one place",
	"actors/gate.go":              "it compares patterns",
	"fsbridge/undolog/restore.go": "its paths are clean, and it looks at all that the steps in between have touched",
}

// TestPathsAreComparedInOnePlace keeps a dozen functions that say whether a path lies in another from coming back.
func TestPathsAreComparedInOnePlace(t *testing.T) {
	seen := []string{}
	for _, top := range []string{"actors", "cmd", "fsbridge", "guest", "hypervisor", "messages", "supervision"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil || !comparesPaths(string(text)) {
				return err
			}
			if name = filepath.ToSlash(name); otherwise[name] == "" {
				t.Errorf("%s says by itself whether one path lies in another: messages/lexical does", name)
			}
			seen = append(seen, name)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range otherwise {
		if !slices.Contains(seen, name) {
			t.Errorf("%s compares no paths any more: take it out of the list", name)
		}
	}
}

func comparesPaths(text string) bool {
	return slices.ContainsFunc(ways, func(w *regexp.Regexp) bool {
		return slices.ContainsFunc(w.FindAllStringSubmatch(text, -1), func(m []string) bool { return len(m) < 3 || m[1] == m[2] })
	})
}

func TestComparisonsOfPathsAreSeen(t *testing.T) {
	for text, want := range map[string]bool{
		"rel, err := filepath.Rel(dir, path)\n\treturn err == nil && filepath.IsLocal(rel)":       true,
		"if rel, err := filepath.Rel(d.Path, p); err == nil && filepath.IsLocal(rel) {":           true,
		"return p == dir || strings.HasPrefix(p, dir+\"/\")":                                      true,
		"strings.HasPrefix(name, h+string(filepath.Separator))":                                   true,
		"rel, err := filepath.Rel(dir, path)\n\tif err != nil {\n\t\treturn err\n\t}\n\tuse(rel)": false,
		"strings.HasPrefix(path, \"/\")":                                                          false,
		"lexical.Within(path, dir)":                                                               false,
	} {
		if got := comparesPaths(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
