package devtools

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// watchScript prints what inotify says about two directories.
const watchScript = `
import ctypes, os, struct
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(0)
names = {2: "modify", 4: "attrib", 8: "close_write", 0x40: "moved_from", 0x80: "moved_to", 0x100: "create", 0x200: "delete"}
dirs = {libc.inotify_add_watch(fd, d.encode(), sum(names)): d for d in (".", "sub")}
[os.stat(n) for n in ("a", "b", "sub/c")]
print("ready", flush=True)
while True:
    buf = os.read(fd, 1 << 16)
    while buf:
        wd, mask, _, size = struct.unpack("iIII", buf[:16])
        name, buf = buf[16:16+size].split(b"\0")[0].decode(), buf[16+size:]
        for bit, what in names.items():
            if mask & bit: print(what, os.path.normpath(os.path.join(dirs[wd], name)), flush=True)
        if name == "stop": raise SystemExit
`

// TestInotify: inotify inside reports what is edited outside: files, new files, renames, removals, and
// an undo. FUSE has no events of its own for that: there, and only for that, it is reported as a
// modification, of the directory where something was removed. Nothing of it is a change by a step.
func TestInotify(t *testing.T) {
	t.Parallel()
	python := require.Program(t, "/usr/bin/python3", "python3")
	for name, b := range bridges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := drive.New(t, func(t testing.TB, root string) {
				for name, text := range map[string]string{"a": "one", "b": "two", "sub/c": "three", "watch.py": watchScript} {
					write(t, filepath.Join(root, name), text)
				}
			})
			t.Cleanup(func() { s.CheckResidue(t) })
			at := func(name string) string { return filepath.Join(s.Dir, name) }
			service(t, s, "watch", append(slices.Clone(b.flags), "--", python, "watch.py")...)
			seen := 0
			await := func(mediated, overFUSE string) { // that this is said, after what was said before
				t.Helper()
				want := mediated
				if name == "fuse" {
					want = overFUSE
				}
				actortest.Eventually(t, want, func() bool {
					lines := strings.Split(s.Must(t, "service", "output", "watch").Stdout, "\n")
					i := slices.Index(lines[min(seen, len(lines)):], want)
					if i >= 0 {
						seen += i + 1
					}
					return i >= 0
				})
			}
			await("ready", "ready")
			replace(t, at("a"), "four")
			await("moved_to a", "modify a")
			write(t, at("a"), "five")
			await("modify a", "modify a")
			write(t, at("new"), "six")
			await("create new", "modify new")
			write(t, at("sub/new"), "seven")
			await("create sub/new", "modify sub/new")
			must(t, os.Rename(at("new"), at("sub/moved")))
			await("moved_to sub/moved", "modify sub/moved")
			must(t, os.Remove(at("sub/c")))
			await("delete sub/c", "modify sub")
			must(t, os.Mkdir(at("made"), 0o755))
			await("create made", "modify made")
			s.Run(t, "echo step >b")
			await("modify b", "modify b")
			before := treesnap.MustTake(t, s.Dir)
			s.Must(t, "undo")
			await("modify b", "modify b")
			if text, err := os.ReadFile(at("b")); err != nil || string(text) != "two" {
				t.Errorf("b is %q, %v", text, err)
			}
			s.Must(t, "redo")
			await("modify b", "modify b")
			treesnap.AssertEqual(t, before, treesnap.MustTake(t, s.Dir))
			if history := s.Must(t, "history").Stdout; strings.Contains(history, "watch.py") {
				t.Errorf("who watches has changed something:\n%s", history)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
