//go:build linux

package mediate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The first things that a shell does.
func TestMBShell(t *testing.T) {
	j := newJail(t)
	out := j.sh(`set -e
		echo hello > a; cat a; echo more >> a; cat a
		mkdir -p d/e/f; echo x > d/e/f/g; mv d/e d/h; ls d/h/f
		ln -s a l; echo by link > l; cat a
		ln a b; rm a; cat b
		chmod 600 b; stat -c %a b; touch -d @1 b; stat -c %Y b
		rm -r d; ls
		umask 077; echo > private; stat -c %a private
	`)
	want := "hello\nhello\nmore\ng\nby link\nby link\n600\n1\nb\nl\n600\n"
	if out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	names, err := os.ReadDir(j.folder)
	check(t, err)
	if len(names) != 3 {
		t.Errorf("the folder has %v", names)
	}
	seen := j.hooks.take()
	for _, kind := range []string{"create a", "mkdir f", "rename e", "symlink l", "truncate", "write", "link b", "unlink a", "setattr", "rmdir d"} {
		if !slices.Contains(seen, kind) {
			t.Errorf("nobody was asked to %s: %s", kind, strings.Join(seen, ", "))
		}
	}
	if n := j.hooks.begun(); n != 0 {
		t.Errorf("%d operations were begun and not ended", n)
	}
	if f := j.server.Figures(); f.Notifications == 0 || f.Granted == 0 {
		t.Errorf("figures %+v", f)
	}
}

// What is in no folder is the kernel's.
func TestMBOutside(t *testing.T) {
	j := newJail(t)
	j.sh(`echo hello > ` + filepath.Join(j.out, "f") + `; mkdir ../out/d; mv ../out/f ../out/d/`)
	if data, err := os.ReadFile(filepath.Join(j.out, "d/f")); err != nil || string(data) != "hello\n" {
		t.Errorf("%q, %v", data, err)
	}
	if seen := j.hooks.take(); len(seen) != 0 {
		t.Errorf("the Interceptor was asked: %v", seen)
	}
}
