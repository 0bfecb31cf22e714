//go:build unix

package programs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFind: what programs inside could have put into PATH is passed over, also where a link leads to it, or a directory of PATH is one.
func TestFind(t *testing.T) {
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	for _, name := range []string{"project/bin/tool", "system/tool", "system/other", "links/x"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(at(name)), 0o755), os.WriteFile(at(name), []byte("#!/bin/sh\n"), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"links/tool": "project/bin/tool", "aside": "project/bin", "links/other": "system/other", "elsewhere": "project"} {
		if err := os.Symlink(at(to), at(link)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(at("project"))
	writable := []string{"/nowhere", at("elsewhere")}
	for _, c := range []struct{ name, path, want string }{
		{"tool", "project/bin:system", "system/tool"},
		{"tool", "links:aside:system", "system/tool"},
		{"tool", "project/bin:links:aside", ""},
		{"other", "project/bin:links", "links/other"},
		{"none", "system", ""},
		{at("project/bin/tool"), "system", ""},
		{at("system/tool"), "", "system/tool"},
		{"bin/tool", "system", ""}, // the current directory is the project
	} {
		var dirs []string
		for dir := range strings.SplitSeq(c.path, ":") {
			dirs = append(dirs, at(dir))
		}
		got, err := Find(c.name, strings.Join(append([]string{"bin", "."}, dirs...), string(filepath.ListSeparator)), writable)
		if c.want != "" && (got != at(c.want) || err != nil) || c.want == "" && (got != "" || !errors.Is(err, exec.ErrNotFound)) {
			t.Errorf("%s in %s: %q, %v", c.name, c.path, got, err)
		}
	}
	if _, err := Find(at("system/none"), "", nil); !errors.Is(err, exec.ErrNotFound) || !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "PATH") {
		t.Errorf("%v", err)
	}
	if _, err := Find("tool", at("project/bin"), writable); err == nil || !strings.Contains(err.Error(), "programs inside can write") {
		t.Errorf("%v", err)
	}
}
