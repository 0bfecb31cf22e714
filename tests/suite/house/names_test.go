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

// notOurs are names in the two documents that stand for a file of somebody else's.
var notOurs = []string{"src/main.go", "codeagent.toml"}

// named finds names of files within backticks. NAME in one stands for any name.
var named = regexp.MustCompile("`([A-Za-z0-9_./-]+\\.(?:go|sh|md|txt|txtar|yml))`")

// TestDocumentsNameFiles: a file that the documents for developers name is there. A path may begin anywhere.
func TestDocumentsNameFiles(t *testing.T) {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "node_modules"}, d.Name()) {
			return fs.SkipDir
		}
		files = append(files, "/"+filepath.ToSlash(path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		found := named.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s names no file", document)
		}
		for _, m := range found {
			there := func(file string) bool { return strings.HasSuffix(file, "/"+m[1]) }
			if !strings.Contains(m[1], "NAME") && !slices.Contains(notOurs, m[1]) && !slices.ContainsFunc(files, there) {
				t.Errorf("%s names %s, which is nowhere", document, m[1])
			}
		}
	}
}
