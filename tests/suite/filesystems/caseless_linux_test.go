package filesystems

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/posixmeta"
	"github.com/codeagent/sandbox/tests/kit/direct"
	"github.com/codeagent/sandbox/tests/kit/filesystems"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// caseless calls f with an empty folder in which case does not count, on each kind of file system that there is here. exFAT needs
// no kernel; few have ext4's, whose names are one in each normal form, too: tests/suite/filesystems/guest has.
func caseless(t *testing.T, f func(t *testing.T, dir string, normal bool)) {
	require.Root(t) // to mount a file system
	if os.Getenv(filesystems.GuestEnv) != "" {
		t.Run(string(filesystems.Casefold), func(t *testing.T) { f(t, filesystems.Mount(t, filesystems.Casefold, nil), true) })
		return
	}
	t.Run("exfat", func(t *testing.T) {
		dir := filepath.Join(require.Image(t, "exfat", 16<<20), "folder")
		check(t, os.Mkdir(dir, 0o755))
		f(t, dir, false)
	})
	if features, _ := filepath.Glob("/sys/fs/ext4/features/casefold"); len(features) == 0 {
		return
	}
	t.Run("ext4", func(t *testing.T) {
		dir := filepath.Join(require.Image(t, "casefold", 64<<20), "folder")
		check(t, os.Mkdir(dir, 0o755))
		if out, err := exec.Command("chattr", "+F", dir).CombinedOutput(); err != nil {
			t.Fatalf("chattr: %v: %s", err, out)
		}
		f(t, dir, true)
	})
}

// inCaseless opens a session on such a folder, with a few files in it.
func inCaseless(t *testing.T, dir string, posix fsbridge.Posix) (s *direct.Session, mnt string) {
	t.Helper()
	for _, d := range []string{"Dir", "Empty"} {
		check(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	for _, f := range []string{"Foo", "Dir/Bar", "123", "Ärger", "Café"} {
		check(t, os.WriteFile(filepath.Join(dir, f), []byte(f), 0o644))
	}
	mnt = t.TempDir()
	s, err := direct.Open(t.Context(), direct.Options{Dir: dir, Undo: filepath.Join(t.TempDir(), "undo"), Mount: mnt, Posix: posix})
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	return s, mnt
}

// does runs a script in the folder.
func does(mnt, script string) error {
	out, err := exec.Command("env", "-C", mnt, "sh", "-ec", script).CombinedOutput()
	if err != nil {
		err = errors.Join(err, errors.New(string(out)))
	}
	return err
}

// TestCaseless: where case does not count, what is removed, moved or replaced by
// another spelling of its name comes back under the name that it had.
func TestCaseless(t *testing.T) {
	scripts := []struct{ name, script string }{
		{"remove", "rm foo"},
		{"remove a directory", "rm -r dir"},
		{"remove below", "rm DIR/bar"},
		{"remove an empty one", "rmdir empty"},
		{"move", "mv foo other"},
		{"move a directory", "mv dir elsewhere"},
		{"replace", "echo new > new; mv new foo"},
		{"write", "echo more >> fOO; : > CAFé"},
		{"as listed", "rm Foo; rm -r Dir"},
		{"not a letter", "rm 123"},
		{"not ASCII", "rm ärger"},
		{"another normal form", "rm cafe\u0301"},
	}
	caseless(t, func(t *testing.T, dir string, normal bool) {
		s, mnt := inCaseless(t, dir, nil)
		for _, c := range scripts {
			if c.name == "another normal form" && !normal {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				before := listing(t, dir)
				_, err := s.Step(t.Context(), c.script, func() error { return does(mnt, c.script) })
				check(t, err)
				after := listing(t, dir)
				if slices.Equal(before, after) {
					t.Fatal("nothing happened")
				}
				is := func(what string, want []string) {
					t.Helper()
					if now := listing(t, dir); !slices.Equal(want, now) {
						t.Fatalf("%s: %q\nwant %q", what, now, want)
					}
				}
				check(t, s.Undo(t.Context(), 1))
				is("undone", before)
				check(t, s.Redo(t.Context(), 1))
				is("redone", after)
				check(t, s.Undo(t.Context(), 1))
				is("undone again", before)
			})
		}
	})
}

// TestCaselessCollisions: in a folder that is served as POSIX has it, where case does not count, a name in another case is none, and cannot be made:
// no file is read, written, replaced or removed by it.
func TestCaselessCollisions(t *testing.T) {
	caseless(t, func(t *testing.T, dir string, _ bool) {
		store, err := posixmeta.Open(filepath.Join(t.TempDir(), "posixmeta.db"), posixmeta.Options{})
		check(t, err)
		t.Cleanup(func() { check(t, store.Close()) })
		s, mnt := inCaseless(t, dir, posixmeta.NewOverlay(store, func() (int64, bool) { return 1, true }))
		before := listing(t, dir)
		_, err = s.Step(t.Context(), "collide", func() error {
			return does(mnt, `for name in foo FOO dir eMPTY ärger CAFÉ dir/Bar Dir/bar; do
					[ ! -e "$name" ] && ! cat "$name" && ! rm -r "$name" && ! rmdir "$name" && ! mv "$name" other || { echo "$name is there"; exit 1; }
					case $name in dir/*) continue ;; esac # it has no directory
					! (echo x > "$name") && ! mkdir "$name" && ! ln -s x "$name" && ! mv 123 "$name" || { echo "$name was made"; exit 1; }
				done 2>/dev/null
				cat Foo Dir/Bar Ärger >/dev/null`)
		})
		check(t, err)
		if now := listing(t, dir); !slices.Equal(before, now) {
			t.Errorf("the folder has %q\nwant %q", now, before)
		}
		// A name can change its case, also where the file system takes both names for one and does nothing (ext4).
		_, err = s.Step(t.Context(), "rename", func() error {
			return does(mnt, "mv Foo FOO; cat FOO >/dev/null; [ ! -e Foo ]; mv Dir dIR; cat dIR/Bar; mv Ärger ÄRGER; mv 123 124; echo new > nEw; mv nEw NEW")
		})
		check(t, err)
		after := listing(t, dir)
		for _, line := range []string{"/FOO: Foo", "/dIR", "/dIR/Bar: Dir/Bar", "/ÄRGER: Ärger", "/124: 123", "/NEW: new\n"} {
			if !slices.Contains(after, dir+line) {
				t.Errorf("renamed: %q is not in %q", line, after)
			}
		}
		if len(after) != len(before)+1 {
			t.Errorf("renamed: %q, before: %q", after, before)
		}
		for _, undone := range []bool{true, false, true} {
			want, do := after, s.Redo
			if undone {
				want, do = before, s.Undo
			}
			check(t, do(t.Context(), 1))
			if now := listing(t, dir); !slices.Equal(want, now) {
				t.Errorf("undone is %t: %q\nwant %q", undone, now, want)
			}
		}
	})
}

// listing is what is in dir: names as they are listed, and contents. (exFAT has neither
// modes nor owners, and its FUSE server sets times when it likes.)
func listing(t *testing.T, dir string) (all []string) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			all = append(all, path)
			return err
		}
		b, err := os.ReadFile(path)
		all = append(all, path+": "+string(b))
		return err
	}))
	return all
}
