package semantics

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/asuser/user"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// others is what a user does in his folder with files of other owners and groups. What outside is refused is refused.
const others = `set -e
	echo more >>open; mv open moved; rm roots; rmdir empty
	echo new >shared/new; mkdir shared/dir; echo deep >shared/dir/new; sed -i s/new/old/ shared/new
	for refused in 'echo x >>private' 'cat private' 'echo x >closed/new' 'rm closed/f' 'chmod 666 moved' 'chown 0:0 own' 'chgrp 0 own'; do
		if sh -c "$refused" 2>err; then echo "not refused: $refused"; fi
		grep -Eq 'Permission denied|not permitted' err || cat err
	done; rm err`

// TestD10Others: over each bridge an ordinary user does with files of others what he does outside.
func TestD10Others(t *testing.T) {
	require.Root(t) // to make files of others
	uid, gid, err := user.IDs()
	must(t, err)
	const group = 54321 // which is not the user's
	for name, b := range bridges {
		t.Run(name, func(t *testing.T) {
			base, err := os.MkdirTemp("/var/tmp", "sem-")
			must(t, err)
			t.Cleanup(func() { must(t, os.RemoveAll(base)) })
			must(t, os.Chmod(base, 0o755))
			program, err := os.ReadFile(drive.Program(t, "sandbox"))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(base, "sandbox"), program, 0o755))
			work := func(path string) string { return filepath.Join(base, "work", path) }
			for _, dir := range []string{"", "empty", "closed", "shared"} {
				must(t, os.Mkdir(work(dir), 0o755))
			}
			for path, mode := range map[string]os.FileMode{"open": 0o666, "roots": 0o644, "private": 0o600, "closed/f": 0o666, "own": 0o644} {
				must(t, os.WriteFile(work(path), []byte("content\n"), mode))
				must(t, os.Chmod(work(path), mode))
			}
			must(t, os.Chown(work(""), int(uid), int(gid)))
			must(t, os.Chown(work("own"), int(uid), int(gid)))
			must(t, os.Chown(work("shared"), int(uid), group))
			must(t, os.Chmod(work("shared"), 0o775|os.ModeSetgid))

			run := append(append([]string{"-c", `cd "$0/work" && exec ../sandbox run --undo-dir "$0/work/../undo" "$@"`, base}, b.flags...), "--", "sh", "-c", others)
			must(t, os.Mkdir(filepath.Join(base, "undo"), 0o700))
			must(t, os.Chown(filepath.Join(base, "undo"), int(uid), int(gid)))
			out, err := user.CombinedOutput("sh", run...)
			if err != nil || strings.Contains(string(out), "not refused") || !strings.Contains(string(out), "changed") {
				t.Fatalf("%v: %s", err, out)
			}
			for _, path := range []string{"shared/new", "shared/dir", "shared/dir/new"} {
				var st unix.Stat_t
				must(t, unix.Lstat(work(path), &st))
				if st.Uid != uid || st.Gid != group {
					t.Errorf("%s belongs to %d:%d, want %d:%d", path, st.Uid, st.Gid, uid, group)
				}
			}
			for path, want := range map[string]string{"moved": "content\nmore\n", "private": "content\n", "closed/f": "content\n", "shared/new": "old\n"} {
				if got, err := os.ReadFile(work(path)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", path, got, err)
				}
			}
			for _, path := range []string{"open", "roots", "empty", "closed/new"} {
				if _, err := os.Lstat(work(path)); !os.IsNotExist(err) {
					t.Errorf("%s is there (%v)", path, err)
				}
			}
		})
	}
}

// TestD10NoExec: what is not executed outside, because of the mount that it is on, is not executed inside.
func TestD10NoExec(t *testing.T) {
	require.Root(t) // to mount
	noExec := func(t testing.TB, at string) {
		must(t, unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOEXEC, "mode=755,size=8m"))
		t.Cleanup(func() { must(t, unix.Unmount(at, unix.MNT_DETACH)) })
	}
	program := func(t testing.TB, path string) {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte("#!/bin/sh\necho executed\n"), 0o755))
	}
	const try = `./f 2>&1; echo $?; test -x f; echo $?`
	for name, b := range bridges {
		t.Run(name, func(t *testing.T) {
			s := drive.New(t, func(t testing.TB, root string) { noExec(t, root); program(t, filepath.Join(root, "f")) })
			out := s.Do(t, append(append([]string{"run"}, b.flags...), "--", "sh", "-c", try)...).Stdout
			if !strings.HasSuffix(out, "Permission denied\n126\n1\n") {
				t.Error(out)
			}
			if why := s.Do(t, append(append([]string{"why"}, b.flags...), "--path", "f")...).Stdout; !strings.Contains(why, "noexec") {
				t.Error(why)
			}
		})
	}
	t.Run("below", func(t *testing.T) { // a folder with mounts is FUSE's
		s := drive.New(t, func(t testing.TB, root string) {
			program(t, filepath.Join(root, "f"))
			must(t, os.Mkdir(filepath.Join(root, "d"), 0o755))
			noExec(t, filepath.Join(root, "d"))
			program(t, filepath.Join(root, "d", "f"))
		})
		out := s.Do(t, "run", "--", "sh", "-c", "./f; d/f 2>&1; echo $?").Stdout
		if !strings.HasPrefix(out, "executed\n") || !strings.HasSuffix(out, "Permission denied\n126\n") {
			t.Error(out)
		}
	})
}
