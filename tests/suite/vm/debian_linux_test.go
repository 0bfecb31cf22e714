package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// withDebian is a place to run bin/sandbox with machines that have a Debian.
func withDebian(t *testing.T) *drive.Sandbox {
	t.Helper()
	require.Program(t, "qemu-system-x86_64", "qemu-system-x86")
	images := guestimage.Debian(t)
	s := drive.New(t, fill)
	cache := filepath.Join(s.State, "home", "cache", "sandbox")
	check(t, os.MkdirAll(cache, 0o755))
	check(t, os.Symlink(images, filepath.Join(cache, "guest")))
	return s
}

// useTools has real tools change the working folder, and says what is around
// them.
const useTools = `set -e
. /etc/os-release; echo $ID; id -un; grep -c ^root: /etc/passwd; cat /etc/hostname
printf 'int puts(const char *); int main(void) { return puts("compiled") < 0; }\n' >hello.c
printf 'hello: hello.c\n\tgcc -o hello hello.c\n' >Makefile
make -s; ./hello
python3 -c 'import os; os.rename("a", "renamed"); print("interpreted")'
export HOME=$PWD GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@y GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@y
git init -q; git add .; git commit -qm first; git status --short | wc -l
echo '#!/bin/sh' >/usr/local/bin/mine; chmod +x /usr/local/bin/mine; mine
! touch /usr/bin/mine /etc/mine 2>/dev/null
grep ' / ' /proc/mounts | cut -d' ' -f1-3; ls /mnt/system 2>/dev/null | wc -l
`

// Real tools work on the folder in a machine with a Debian, and it is put back.
func TestDebian(t *testing.T) {
	s := withDebian(t)
	before := s.Snapshot(t)
	r := s.Must(t, inMachine("--", "bash", "-c", useTools)...)
	if want := "debian\nsandbox\n1\nsandbox\ncompiled\ninterpreted\n0\nsystem / overlay\n0\n"; r.Stdout != want {
		t.Errorf("%q, want %q (%s)", r.Stdout, want, r.Stderr)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, ".git", "HEAD")); err != nil {
		t.Error(err)
	}
	s.Must(t, "undo")
	treesnap.AssertEqual(t, before, s.Snapshot(t))

	// busybox is had by asking for it, and what is no file system is none.
	if r := s.Must(t, inMachine("--rootfs-path", "none", "--", "sh", "-c", "readlink /bin/ls")...); r.Stdout != "busybox\n" {
		t.Errorf("no root file system: %q", r.Stdout)
	}
	junk := filepath.Join(s.State, "junk")
	check(t, os.WriteFile(junk, make([]byte, 1<<20), 0o600))
	if r := s.Do(t, inMachine("--rootfs-path", junk, "--", "true")...); r.Code != 125 || !strings.Contains(r.Stderr, "none of squashfs, erofs, ext4") {
		t.Errorf("a root file system of zeros: exit status %d, %s", r.Code, r.Stderr)
	}
	s.CheckResidue(t)
}
