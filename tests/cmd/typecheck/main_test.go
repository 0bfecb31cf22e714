package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun: what does not compile on another system is found there, in tests, too, and nowhere else.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                 "module example.test/m\n\ngo 1.24\n",
		"a/a.go":                 "package a\n\nimport \"unicode/utf8\"\n\nfunc A() string { return string(rune(utf8.UTFMax)) + os() }\n",
		"a/os_linux.go":          "package a\n\nfunc os() string { return \"linux\" }\n",
		"a/os_darwin.go":         "package a\n\nimport \"errors\"\n\nfunc os() string { return 1 }\n",
		"a/a_test.go":            "package a\n\nvar Exported = A\n",
		"a/b_windows_test.go":    "package a_test\n\nimport \"example.test/m/a\"\n\nvar _ int = a.Exported\n",
		"a/c_test.go":            "package a_test\n\nimport \"example.test/m/a\"\n\nvar _ = a.Exported\n",
		"a/os_windows.go":        "package a\n\nfunc os() string { return \"windows\" }\n",
		"b/b.go":                 "package b\n\nimport \"example.test/m/a\"\n\nfunc B() { a.A() }\n",
		"b/body_linux_arm64.go":  "package b\n\nfunc body() { var unused int }\n",
		"b/const_linux_arm64.go": "package b\n\nconst C uint8 = 256\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for system, want := range map[string][]string{
		"linux/amd64":   nil,
		"darwin/arm64":  {"os_darwin.go:3:8:", "os_darwin.go:5:27:"},
		"windows/amd64": {"b_windows_test.go:5:13:"},
		"linux/arm64":   {"body_linux_arm64.go:3:19:", "const_linux_arm64.go:3:17:"},
	} {
		var told strings.Builder
		status := run([]string{system, "./..."}, &told)
		if found := strings.Count(told.String(), dir); (status != 0) != (want != nil) || found != len(want) {
			t.Errorf("%s: %d, %d errors: %s", system, status, found, told.String())
		}
		for _, place := range want {
			if !strings.Contains(told.String(), place) {
				t.Errorf("%s: not found at %s: %s", system, place, told.String())
			}
		}
	}
}
