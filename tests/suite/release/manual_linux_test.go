package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestManualPages: the program's own pages are clean, and name only pages that are there.
func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command(drive.Program(t, "sandbox"), "manual", dir).CombinedOutput(); err != nil {
		t.Fatalf("sandbox manual: %v\n%s", err, out)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "man1", "*.1"))
	if err != nil || len(pages) < 50 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	mandoc := require.Program(t, "mandoc", "mandoc")
	if out, err := exec.Command(mandoc, append([]string{"-T", "lint"}, pages...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("mandoc -T lint: %v\n%s", err, out)
	}
	named := regexp.MustCompile(`(?m)^(?:\.BR |\\fB)(sandbox\S*?)(?: |\\fR)\(1\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllSubmatch(text, -1) {
			name := strings.ReplaceAll(string(m[1]), `\-`, "-")
			if _, err := os.Stat(filepath.Join(dir, "man1", name+".1")); err != nil {
				t.Errorf("%s names %s(1): %v", filepath.Base(page), name, err)
			}
		}
	}
}
