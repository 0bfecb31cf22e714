package hostfs

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestU11RenameSlowly renames as RenameNew does where there is no RENAME_NOREPLACE.
func TestU11RenameSlowly(t *testing.T) {
	r, dir := openRoot(t)
	fill := map[string]func(name string) error{
		"file": func(name string) error { return os.WriteFile(name, []byte(name), 0o600) },
		"dir": func(name string) error {
			return errors.Join(os.Mkdir(name, 0o700), os.WriteFile(name+"/in", nil, 0o600))
		},
		"empty":   func(name string) error { return os.Mkdir(name, 0o700) },
		"symlink": func(name string) error { return os.Symlink("x", name) },
		"fifo":    func(name string) error { return unix.Mkfifo(name, 0o600) },
	}
	t.Chdir(dir)
	for what, f := range fill {
		for there, g := range fill {
			check(t, errors.Join(f("from"), g("to")))
			was, err := StatAt(r.FD(), "from")
			check(t, err)
			is, err := StatAt(r.FD(), "to")
			check(t, err)
			if err := renameSlowly(r.FD(), "from", r.FD(), "to"); !errors.Is(err, syscall.EEXIST) {
				t.Errorf("%s to where a %s is: %v", what, there, err)
			}
			if st, err := StatAt(r.FD(), "to"); err != nil || st.ID != is.ID {
				t.Errorf("%s replaced a %s: %v", what, there, err)
			}
			check(t, renameSlowly(r.FD(), "from", r.FD(), "free"))
			if st, err := StatAt(r.FD(), "free"); err != nil || st.ID != was.ID || st.Nlink != was.Nlink {
				t.Errorf("%s: %+v %v, want %+v", what, st, err, was)
			}
			if _, err := StatAt(r.FD(), "from"); !errors.Is(err, syscall.ENOENT) {
				t.Errorf("%s has two names: %v", what, err)
			}
			check(t, errors.Join(os.RemoveAll("free"), os.RemoveAll("to")))
		}
	}
}

// TestU11Try tries a file system that is known to be able to do all, and leaves nothing.
func TestU11Try(t *testing.T) {
	r, dir := openRoot(t)
	before, err := StatFD(r.FD())
	check(t, err)
	cannot, err := Try(r.FD())
	check(t, err)
	for _, a := range []Ability{CanRenameNew, CanExchange, CanLink, CanSymlink, CanFifo, CanMode, CanHole, CanNanotimes, CanKeepInode} {
		if slices.Contains(cannot, a) {
			t.Errorf("no %s", a)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	if st, err := StatFD(r.FD()); err != nil || st.Mtime != before.Mtime {
		t.Errorf("the directory changed: %v %v", st, err)
	}
}
