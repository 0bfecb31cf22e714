package undolog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestAttributesComeBack: what comes back has all of its attributes, however the step changed it first, whatever then became of it, and
// wherever the log has it: as an inode, in a pack, or in records alone.
func TestAttributesComeBack(t *testing.T) {
	for _, packed := range []bool{false, true} {
		t.Run(fmt.Sprintf("packed=%v", packed), func(t *testing.T) {
			bothPlaces(t, func(t *testing.T, w *world) { attributesComeBack(t, w, packed) })
		})
	}
}

// firsts are what a step does to the file f of a directory first, and where that is then; thens what it does to it after that.
var (
	firsts = map[string]func(w *world, d string) (f string, err error){
		"nothing": func(_ *world, d string) (string, error) { return d + "/f", nil },
		"write":   func(w *world, d string) (string, error) { return d + "/f", w.write(d+"/f", 70_000, "changed") },
		"cut":     func(w *world, d string) (string, error) { return d + "/f", w.truncate(d+"/f", 5) },
		"mode":    func(w *world, d string) (string, error) { return d + "/f", w.chmod(d+"/f", 0o600) },
		"xattr":   func(w *world, d string) (string, error) { return d + "/f", w.setxattr(d+"/f", "user.k", "other") },
		"times":   func(w *world, d string) (string, error) { return d + "/f", w.utimes(d+"/f", 5) },
		"rename":  func(w *world, d string) (string, error) { return d + "/g", w.rename(d+"/f", d+"/g", 0) },
		"link":    func(w *world, d string) (string, error) { return d + "/f", w.link(d+"/f", d+"/g") },
	}
	thens = map[string]func(w *world, d, f string) error{
		"stays":   func(*world, string, string) error { return nil },
		"removed": func(w *world, _, f string) error { return w.unlink(f) },
		"all":     func(w *world, d, _ string) error { return w.RemoveAll(d) },
		"replaced": func(w *world, d, f string) error {
			if err := w.create(d+"/new", "new"); err != nil {
				return err
			}
			return w.rename(d+"/new", f, 0)
		},
		"made anew": func(w *world, _, f string) error {
			if err := w.unlink(f); err != nil {
				return err
			}
			return w.create(f, "new")
		},
		"emptied": func(w *world, _, f string) error { return w.truncate(f, 0) },
	}
)

func attributesComeBack(t *testing.T, w *world, packed bool) {
	w.step(func() {
		for first := range firsts {
			for then := range thens {
				d := strings.ReplaceAll(first+"-"+then, " ", "-")
				w.ok(w.mkdir(d))
				w.ok(w.create(d+"/f", ""))
				w.ok(w.truncate(d+"/f", 200_000))
				w.ok(w.write(d+"/f", 60_000, strings.Repeat("there", 5000)))
			}
		}
	})
	for path := range w.snapshot().Entries {
		decorate(t, filepath.Join(w.base, "work", path))
	}
	before := w.snapshot()
	pack := func() {
		if packed {
			_, err := w.log.GC(t.Context(), GCOptions{CompressAll: true})
			w.ok(err)
		}
	}
	step := w.step(func() {
		for first, f := range firsts {
			for then, g := range thens {
				d := strings.ReplaceAll(first+"-"+then, " ", "-")
				path, err := f(w, d)
				w.ok(err)
				if err := g(w, d, path); err != nil {
					t.Fatalf("%s: %v", d, err)
				}
				if then != "all" {
					w.ok(w.chmod(d, 0o710))
				}
			}
		}
	})
	after := w.snapshot()
	for range 2 { // what an undo has put back is captured by its inverse, and packed as that
		pack()
		w.undo(1)
		treesnap.AssertEqual(t, before, w.snapshot(), treesnap.Options{IgnoreLinks: true})
		w.redo(1)
		treesnap.AssertEqual(t, after, w.snapshot(), treesnap.Options{IgnoreLinks: true})
	}
	pack()
	for _, path := range []string{"write-removed/f", "xattr-all", "rename-emptied", "."} {
		w.NewEpoch()
		_, err := w.log.Restore(t.Context(), RestoreOptions{Path: path, Step: step.StepID})
		w.ok(err)
		w.Forget()
		elsewhere := func(p string) bool { return path != "." && p != path && !strings.HasPrefix(p, path+"/") }
		treesnap.AssertEqual(t, before, w.snapshot(), treesnap.Options{IgnoreLinks: true, Exclude: elsewhere})
	}
}

// decorate gives a file or a directory what an inode can have: a mode, a time, and each kind of attribute that we may give it.
func decorate(t *testing.T, path string) {
	t.Helper()
	const noDump, noTimes = 0x40, 0x80
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	st, err := hostfs.StatFD(fd)
	if err != nil {
		t.Fatal(err)
	}
	acl := "\x02\x00\x00\x00" + "\x01\x00\x07\x00\xff\xff\xff\xff" + "\x02\x00\x07\x00\x39\x30\x00\x00" +
		"\x04\x00\x04\x00\xff\xff\xff\xff" + "\x10\x00\x07\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff" // u::rwx, u:12345:rwx, g::r, m::rwx, o::-
	list := map[string]string{"user.k": "value", "user.long": strings.Repeat("long", 50), hostfs.AccessACL: acl}
	if st.IsDir() {
		list[hostfs.DefaultACL] = acl
	}
	for name, value := range list {
		if err := unix.Fsetxattr(fd, name, []byte(value), 0); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for name, value := range map[string]string{"trusted.k": "of root", "security.capability": "\x00\x00\x00\x02\x00\x04\x00\x00" + strings.Repeat("\x00", 12)} {
		_ = unix.Fsetxattr(fd, name, []byte(value), 0) // nobody but root may
	}
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|noDump|noTimes)
	}
	if err != nil {
		t.Fatalf("flags of %s: %v", path, err)
	}
	if err := hostfs.UtimesFD(fd, st.Mtime, 1_234_567_890_123_456_789); err != nil {
		t.Fatal(err)
	}
}
