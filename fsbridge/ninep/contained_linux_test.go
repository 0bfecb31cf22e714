package ninep

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// contained is a folder with a directory, and a directory outside with the same names in it.
type contained struct {
	*lab
	c       *client
	outside string
	before  *treesnap.Snapshot
}

func newContained(t *testing.T) *contained {
	t.Helper()
	l := newLab(t, nil)
	k := &contained{lab: l, c: l.dial(), outside: t.TempDir()}
	must(t, errors.Join(os.MkdirAll(l.path("d/sub"), 0o777), os.Mkdir(filepath.Join(k.outside, "sub"), 0o777), os.WriteFile(l.path("mine"), []byte("mine"), 0o666)))
	for _, dir := range []string{l.path("d"), k.outside} {
		must(t, errors.Join(os.WriteFile(filepath.Join(dir, "f"), []byte(filepath.Base(dir)), 0o666), os.WriteFile(filepath.Join(dir, "sub", "g"), nil, 0o666)))
	}
	k.before = treesnap.MustTake(t, k.outside)
	return k
}

// swap puts a link that leads outside where the directory was, which has another name then.
func (k *contained) swap() {
	must(k.t, errors.Join(os.Rename(k.path("d"), k.path("moved")), os.Symlink(k.outside, k.path("d"))))
}

// untouched ends the test of what was tried.
func (k *contained) untouched() {
	k.t.Helper()
	treesnap.AssertEqual(k.t, k.before, treesnap.MustTake(k.t, k.outside))
}

// TestSC04Contained: without a chroot, a link that leads outside is a file that is a link: nothing walks through it, whatever is asked of it.
func TestSC04Contained(t *testing.T) {
	k := newContained(t)
	must(t, errors.Join(os.Symlink(k.outside, k.path("away")), os.Symlink("away", k.path("chain")), os.Symlink("../../../../../../../.."+k.outside, k.path("d/up"))))
	for i, names := range [][]string{{"away"}, {"chain"}, {"d", "up"}} {
		fid := uint32(10 * (i + 1))
		must(t, k.c.walk(0, fid+1, names...))
		for _, beyond := range [][]string{{"f"}, {"sub", "g"}} {
			if err := k.c.walk(0, fid, append(names[:len(names):len(names)], beyond...)...); err == nil {
				t.Errorf("walked from %q to %q", names, beyond)
			}
		}
		for what, err := range map[string]error{
			"make":      k.c.rpc(typTmkdir, &tmkdir{fid + 1, "made", 0o755, 0}, new(rqid)),
			"remove":    k.c.rpc(typTunlinkat, &tunlinkat{fid + 1, "f", 0}, new(empty)),
			"name anew": k.c.rpc(typTrenameat, &trenameat{0, "mine", fid + 1, "mine"}, new(empty)),
			"open":      k.c.rpc(typTlopen, &tlopen{fid + 1, syscall.O_RDONLY}, new(ropen)),
		} {
			if err == nil {
				t.Errorf("%q: somebody could %s there", names, what)
			}
		}
	}
	k.untouched()
}

// TestSC05OpenedOnce: what a guest has walked to, or opened, is the object, not its path: who exchanges the path afterwards leads nobody outside.
func TestSC05OpenedOnce(t *testing.T) {
	k := newContained(t)
	must(t, errors.Join(k.c.walk(0, 1, "d"), k.c.walk(0, 2, "d", "f"), k.c.walk(0, 3, "d", "f"), k.c.walk(0, 4, "d", "sub")))
	must(t, k.c.rpc(typTlopen, &tlopen{2, syscall.O_RDWR}, new(ropen)))
	k.swap()
	if text, err := k.c.readAt(2, 0, 16); err != nil || text != "d" {
		t.Errorf("the opened file reads as %q, %v", text, err)
	}
	must(t, k.c.write(2, 0, "D"))
	if b, err := os.ReadFile(k.path("moved/f")); err != nil || string(b) != "D" {
		t.Errorf("the opened file was written as %q, %v", b, err)
	}
	// By what was walked to, the same object or nothing is reached.
	if k.c.rpc(typTlopen, &tlopen{3, syscall.O_RDONLY}, new(ropen)) == nil {
		if text, err := k.c.readAt(3, 0, 16); err != nil || text != "D" {
			t.Errorf("the file reads as %q, %v", text, err)
		}
	}
	for path, err := range map[string]error{
		"moved/made":     k.c.rpc(typTmkdir, &tmkdir{1, "made", 0o755, 0}, new(rqid)),
		"moved/sub/made": k.c.rpc(typTmkdir, &tmkdir{4, "made", 0o755, 0}, new(rqid)),
	} {
		if _, is := os.Stat(k.path(path)); (err == nil) != (is == nil) {
			t.Errorf("%s: %v, and it is there: %v", path, err, is)
		}
	}
	k.untouched()
}

// TestSC06Junction: a link to a directory of the host, as a junction is, shows nothing of it and cannot be changed through. It can be removed itself.
func TestSC06Junction(t *testing.T) {
	k := newContained(t)
	for _, target := range []string{k.outside, "/etc", "/proc/self/root"} {
		must(t, os.Symlink(target, k.path("junction")))
		must(t, k.c.walk(0, 1, "junction"))
		for what, err := range map[string]error{
			"list":   k.c.rpc(typTreaddir, &tread{1, 0, 4096}, new(rread)),
			"open":   k.c.rpc(typTlopen, &tlopen{1, unix.O_DIRECTORY}, new(ropen)),
			"create": k.c.rpc(typTlcreate, &tlcreate{fid: 1, name: "made", flags: syscall.O_RDWR, mode: 0o600}, new(ropen)),
			"walk":   k.c.walk(1, 2, "."),
			"pass":   k.c.walk(0, 2, "junction", "sub"),
			"link":   k.c.rpc(typTlink, &tlink{1, 0, "made"}, new(empty)),
		} {
			if err == nil {
				t.Errorf("%s: somebody could %s it", target, what)
			}
		}
		must(t, k.c.clunk(1))
		must(t, k.c.rpc(typTunlinkat, &tunlinkat{0, "junction", 0}, new(empty)))
	}
	k.untouched()
}

// TestSC07RenameTarget: a rename goes to a directory of the folder, or it is refused: a target that was exchanged for a link meanwhile, or is one, takes nothing outside. A link that is renamed over is replaced, not followed.
func TestSC07RenameTarget(t *testing.T) {
	k := newContained(t)
	must(t, errors.Join(k.c.walk(0, 1, "d"), k.c.walk(0, 2, "mine")))
	k.swap()
	must(t, k.c.walk(0, 3, "d"))
	for what, err := range map[string]error{
		"by names": k.c.rpc(typTrenameat, &trenameat{0, "mine", 3, "mine"}, new(empty)),
		"by fid":   k.c.rpc(typTrename, &trename{2, 3, "mine"}, new(empty)),
		"up":       k.c.rpc(typTrenameat, &trenameat{0, "mine", 0, "../mine"}, new(empty)),
		"around":   k.c.rpc(typTrenameat, &trenameat{0, "mine", 0, "d/mine"}, new(empty)),
	} {
		if err == nil {
			t.Errorf("%s: renamed into a link", what)
		}
	}
	if err := k.c.rpc(typTrenameat, &trenameat{0, "mine", 1, "mine"}, new(empty)); err == nil { // to the directory that was walked to before
		if b, err := os.ReadFile(k.path("moved/mine")); err != nil || string(b) != "mine" {
			t.Errorf("it went elsewhere: %q, %v", b, err)
		}
	} else if b, err := os.ReadFile(k.path("mine")); err != nil || string(b) != "mine" {
		t.Errorf("refused, and gone: %q, %v", b, err)
	}
	must(t, errors.Join(os.WriteFile(k.path("over"), []byte("over"), 0o666), os.Symlink(filepath.Join(k.outside, "f"), k.path("file"))))
	must(t, k.c.rpc(typTrenameat, &trenameat{0, "over", 0, "file"}, new(empty)))
	if info, err := os.Lstat(k.path("file")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the link was not replaced: %v, %v", info, err)
	}
	k.untouched()
}
