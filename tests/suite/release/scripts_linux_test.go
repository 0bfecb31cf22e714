package release

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// actionlintAt reads the workflows as GitHub does.
const actionlintAt = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"

// TestWorkflows: the workflows are what GitHub understands.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(module, ".github", "workflows", "*.yml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("workflows: %q, %v", files, err)
	}
	run(t, ".", nil, tool(t, actionlintAt), append([]string{"-no-color"}, files...)...)
}

// TestShellScripts: shellcheck has no warning about a script of the project.
func TestShellScripts(t *testing.T) {
	shellcheck := require.Program(t, "shellcheck", "shellcheck")
	var scripts []string
	err := filepath.WalkDir(module, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains([]string{".git", "bin", "dist", "node_modules"}, e.Name()) && e.IsDir() {
			return fs.SkipDir
		}
		if e.Type().IsRegular() && (filepath.Ext(path) == ".sh" || filepath.Ext(path) == "") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			first, _, _ := strings.Cut(string(text[:min(len(text), 200)]), "\n")
			if strings.HasPrefix(first, "#!") && strings.HasSuffix(first, "sh") {
				scripts = append(scripts, path)
			}
		}
		return nil
	})
	if err != nil || len(scripts) < 8 {
		t.Fatalf("scripts: %q, %v", scripts, err)
	}
	run(t, ".", nil, shellcheck, append([]string{"--severity=warning"}, scripts...)...)
}
