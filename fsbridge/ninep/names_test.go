package ninep

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Names that a guest tries in a folder that is served as Windows has it. Those that are there already are "README", "Ärger", "k", "a" and "f".
var (
	// noNames are not made, and by them nothing is found: the devices of Win32, what it takes for a stream or a path, and what it cuts off.
	noNames = []string{
		"con", "CON", "Con.txt", "con .txt", "nul", "nul.txt", "NUL.tar.gz", "prn", "aux", "aux.h", "com1", "COM9.log", "com¹", "lpt1", "LPT³.x",
		"conin$", "CONOUT$", "a:b", "a:", ":", "f::$DATA", "f:stream:$DATA", `a\b`, `\`, `..\up`, `C:\x`, `\\?\C:\x`, `.\f`, "a*", "?", `a"`, "a<", "a>", "a|b",
		"\x01", "a\n", "a\x1f", "trail.", "trail ", "trail. .", "f.", "f ", "...", " ", ". .", "\xff", "caf\xe9", "\xed\xa0\x80",
	}
	// sameNames are not made, because names that differ only in case are there. By them nothing is found.
	sameNames = []string{"readme", "ReadMe", "ärger", "ÄRGER", "\u212a", "K"}
	// goodNames are made as they are. The first two are one name on macOS.
	goodNames = []string{
		"café", "cafe\u0301", "con1", "console", "com10", "com0", "nul-", "..a", ".hidden", " a", "a b", "~$x", "PROGRA~1", "a~1.txt", "%41", "日本", "\U0001f600", "a'b",
		"[x]", "x;y=z", "-rf", "$(x)", "a.nul", strings.Repeat("ä", 127), strings.Repeat("x", 255),
	}
)

// namesLab is a folder with a log, served as Windows has it.
type namesLab struct {
	*lab
	*client
	h   *hooks
	log *undolog.Log
}

func newNamesLab(t *testing.T) *namesLab {
	t.Helper()
	n := &namesLab{h: newHooks(nil)}
	n.lab = newLab(t, func(o *Options) {
		asPosix(t, o)
		var err error
		n.log, err = undolog.Open(context.Background(), undolog.Options{Dir: filepath.Join(t.TempDir(), "undo"), Root: o.Tree.Root})
		must(t, err)
		n.h.log, o.Tree.Hooks = n.log, n.h
	})
	t.Cleanup(func() { must(t, n.log.Close()) })
	for _, name := range []string{"README", "Ärger", "k", "a", "f"} {
		must(t, os.WriteFile(n.path(name), []byte(name), 0o644))
	}
	n.client = n.dial()
	return n
}

// listing is what the folder has: contents by names.
func (n *namesLab) listing(t *testing.T) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(n.host)
	must(t, err)
	all := map[string]string{}
	for _, e := range entries {
		if e.IsDir() {
			all[e.Name()] = "a directory"
			continue
		}
		b, err := os.ReadFile(n.path(e.Name()))
		must(t, err)
		all[e.Name()] = string(b)
	}
	return all
}

func (n *namesLab) has(t *testing.T, what string, want map[string]string) {
	t.Helper()
	if got := n.listing(t); !maps.Equal(got, want) {
		t.Errorf("%s: the folder has %q, want %q", what, got, want)
	}
}

// made are all messages that would give a name.
func (n *namesLab) made(name string) map[string]error {
	must(n.lab.t, n.walk(0, 1))
	must(n.lab.t, n.walk(0, 2, "a"))
	all := map[string]error{
		"create":  n.rpc(typTlcreate, &tlcreate{fid: 1, name: name, flags: 2, mode: 0o644}, new(ropen)),
		"mkdir":   n.rpc(typTmkdir, &tmkdir{0, name, 0o755, 0}, new(rqid)),
		"mknod":   n.rpc(typTmknod, &tmknod{fid: 0, name: name, mode: posix.S_IFIFO | 0o600}, new(rqid)),
		"symlink": n.rpc(typTsymlink, &tsymlink{0, name, "f", 0}, new(rqid)),
		"link":    n.rpc(typTlink, &tlink{0, 2, name}, new(empty)),
		"rename":  n.rpc(typTrenameat, &trenameat{0, "f", 0, name}, new(empty)),
		"by fid":  n.rpc(typTrename, &trename{2, 0, name}, new(empty)),
	}
	must(n.lab.t, n.clunk(1))
	must(n.lab.t, n.clunk(2))
	return all
}

// found are all messages that would find something by a name.
func (n *namesLab) found(name string) map[string]error {
	return map[string]error{
		"walk":   n.walk(0, 3, name),
		"unlink": n.rpc(typTunlinkat, &tunlinkat{0, name, 0}, new(empty)),
		"rmdir":  n.rpc(typTunlinkat, &tunlinkat{0, name, posix.AT_REMOVEDIR}, new(empty)),
		"rename": n.rpc(typTrenameat, &trenameat{0, name, 0, "new"}, new(empty)),
	}
}

// TestNamesThatAreNone: a name that Windows has not, or takes for another, is refused by each message with an errno that says so, and none of the files that are there is found or touched by it.
func TestNamesThatAreNone(t *testing.T) {
	n := newNamesLab(t)
	before := n.listing(t)
	refused := func(name string, got map[string]error, want posix.Errno) {
		t.Helper()
		for what, err := range got {
			if err != want {
				t.Errorf("%s %q: %v, want %v", what, name, err, want)
			}
		}
	}
	entry := n.h.step(t, func() {
		for _, name := range noNames {
			refused(name, n.made(name), posix.EINVAL)
			refused(name, n.found(name), posix.ENOENT)
		}
		for _, name := range sameNames {
			refused(name, n.made(name), posix.EEXIST)
			refused(name, n.found(name), posix.ENOENT)
		}
		for _, name := range []string{"", ".", "..", "a/b", "/", "../up", "a\x00", "\x00"} {
			refused(name, n.made(name), posix.EINVAL)
			for what, err := range n.found(name) {
				if err == nil {
					t.Errorf("%s %q: it was found", what, name)
				}
			}
		}
		refused("of 256 bytes", n.made(strings.Repeat("x", 256)), posix.ENAMETOOLONG)
	})
	n.has(t, "after the refusals", before)
	if entry != nil && !slices.Equal(entry.AffectedPaths, []string{"."}) { // of which its record begins
		t.Errorf("the step changed something: %+v", entry)
	}
	if up, err := os.ReadDir(filepath.Dir(n.host)); err != nil || slices.ContainsFunc(up, func(e os.DirEntry) bool { return e.Name() == "up" }) {
		t.Errorf("beside the folder: %v, %v", up, err)
	}
}

// apply undoes or redoes a step, after which the folder is as wanted.
func (n *namesLab) apply(t *testing.T, what string, f func(context.Context, undolog.UndoOptions) (*undolog.ApplyResult, error), want map[string]string) {
	t.Helper()
	n.h.guard.Drain(func() bool {
		r, err := f(context.Background(), undolog.UndoOptions{Count: 1})
		must(t, err)
		must(t, n.Invalidate(r.Changes))
		return true
	})
	n.has(t, what, want)
}

// TestNamesAsTheyAre: each other name is made as it is, and is undone and redone as it is.
func TestNamesAsTheyAre(t *testing.T) {
	n := newNamesLab(t)
	before := n.listing(t)
	after := maps.Clone(before)
	good := goodNames
	if runtime.GOOS == "darwin" {
		good = good[1:]
	}
	n.h.step(t, func() {
		for _, name := range good {
			must(t, n.walk(0, 1))
			must(t, n.rpc(typTlcreate, &tlcreate{fid: 1, name: name, flags: 2, mode: 0o644}, new(ropen)))
			must(t, n.write(1, 0, "of "+name))
			must(t, n.clunk(1))
			must(t, n.open(0, 1, 0, name))
			if got, err := n.readAt(1, 0, 1000); err != nil || got != "of "+name {
				t.Errorf("%q has %q, %v", name, got, err)
			}
			must(t, n.clunk(1))
			after[name] = "of " + name
		}
		// One that another had, and one that is there in another case.
		must(t, n.rpc(typTrenameat, &trenameat{0, "README", 0, "moved"}, new(empty)))
		must(t, n.rpc(typTrenameat, &trenameat{0, "k", 0, "ReadMe"}, new(empty)))
		after["moved"], after["ReadMe"] = "README", "k"
		delete(after, "README")
		delete(after, "k")
	})
	n.has(t, "made", after)
	for range 2 {
		n.apply(t, "undone", n.log.Undo, before)
		n.apply(t, "redone", n.log.Redo, after)
	}
}

// TestNameInAnotherCase: a name changes its case by a rename, and back by an undo, also where the file system takes both for one and does nothing. A
// directory goes with what is open in it.
func TestNameInAnotherCase(t *testing.T) {
	n := newNamesLab(t)
	must(t, os.Mkdir(n.path("dir"), 0o755))
	must(t, os.WriteFile(n.path("dir/below"), []byte("below"), 0o644))
	before := n.listing(t)
	after := maps.Clone(before)
	rename := func(from, to string) {
		t.Helper()
		must(t, n.rpc(typTrenameat, &trenameat{0, from, 0, to}, new(empty)))
		after[to] = after[from]
		delete(after, from)
		if err := n.walk(0, 7, from); err != posix.ENOENT {
			t.Errorf("%q, when it is %q: %v", from, to, err)
		}
	}
	n.h.step(t, func() {
		must(t, n.open(0, 1, 2, "README"))
		must(t, n.open(0, 2, 2, "dir", "below"))
		rename("README", "Readme")
		rename("dir", "DIR")
		rename("Ärger", "ÄRGER")
		rename("k", "K")
		rename("K", "k")
		must(t, n.write(1, 0, "ReadMe"))
		must(t, n.write(2, 0, "BELOW"))
		after["Readme"] = "ReadMe"
	})
	n.has(t, "renamed", after)
	if b, err := os.ReadFile(n.path("DIR/below")); err != nil || string(b) != "BELOW" {
		t.Errorf("below: %q, %v", b, err)
	}
	n.apply(t, "undone", n.log.Undo, before)
	n.apply(t, "redone", n.log.Redo, after)
	n.apply(t, "undone again", n.log.Undo, before)
}
