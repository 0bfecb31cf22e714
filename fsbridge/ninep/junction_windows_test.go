package ninep

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/tests/kit/junction"
)

// junctionLab is a server of a folder with a junction that leads out of it, the file mine and the directory d.
type junctionLab struct {
	*lab
	*client
	folder *junction.Folder
}

func newJunctionLab(t *testing.T) *junctionLab {
	t.Helper()
	f := junction.New(t)
	l := newLabOf(t, f.Path, nil)
	must(t, errors.Join(os.WriteFile(l.path("mine"), []byte("mine"), 0o644), os.Mkdir(l.path("d"), 0o755)))
	return &junctionLab{l, l.dial(), f}
}

// refused fails the test for each of what was tried that succeeded, and if anything outside has changed.
func (j *junctionLab) refused(tried map[string]error) {
	j.lab.t.Helper()
	for what, err := range tried {
		if err == nil {
			j.lab.t.Errorf("somebody could %s", what)
		}
	}
	j.folder.Untouched()
}

// TestSC06WN07ReadThroughJunction: a junction is a link, whatever it leads to. Nothing beyond it is found, listed or read.
func TestSC06WN07ReadThroughJunction(t *testing.T) {
	j := newJunctionLab(t)
	must(t, j.walk(0, 1, junction.Name))
	var attr rgetattr
	must(t, j.rpc(typTgetattr, &tgetattr{1, ^uint64(0)}, &attr))
	if attr.mode&posix.S_IFMT != posix.S_IFLNK {
		t.Errorf("the junction has mode %o", attr.mode)
	}
	tried := map[string]error{
		"list it": j.rpc(typTreaddir, &tread{1, 0, 4096}, new(rread)),
		"open it": j.rpc(typTlopen, &tlopen{1, posix.O_RDONLY | posix.O_DIRECTORY}, new(ropen)),
		"read it": j.rpc(typTread, &tread{1, 0, 16}, new(rread)),
	}
	for _, beyond := range [][]string{{"f"}, {"sub"}, {"sub", "g"}, {"."}, {".."}, {"none"}} {
		tried[fmt.Sprintf("walk from it to %q", beyond)] = j.walk(1, 2, beyond...)
		tried[fmt.Sprintf("walk through it to %q", beyond)] = j.walk(0, 2, slices.Concat([]string{junction.Name}, beyond)...)
	}
	j.refused(tried)
}

// TestSC06WN06WriteThroughJunction: nothing is made, written, removed, linked or described beyond a junction.
func TestSC06WN06WriteThroughJunction(t *testing.T) {
	j := newJunctionLab(t)
	must(t, errors.Join(j.walk(0, 1, junction.Name), j.walk(0, 2, "mine")))
	j.refused(map[string]error{
		"open it to write":         j.rpc(typTlopen, &tlopen{1, posix.O_RDWR}, new(ropen)),
		"create a file in it":      j.rpc(typTlcreate, &tlcreate{fid: 1, name: "made", flags: posix.O_RDWR, mode: 0o600}, new(ropen)),
		"create a file over f":     j.rpc(typTlcreate, &tlcreate{fid: 1, name: "f", flags: posix.O_RDWR | posix.O_TRUNC, mode: 0o600}, new(ropen)),
		"make a directory in it":   j.rpc(typTmkdir, &tmkdir{1, "made", 0o755, 0}, new(rqid)),
		"make a symlink in it":     j.rpc(typTsymlink, &tsymlink{1, "made", "f", 0}, new(rqid)),
		"give a file a name in it": j.rpc(typTlink, &tlink{1, 2, "made"}, new(empty)),
		"remove what is in it":     j.rpc(typTunlinkat, &tunlinkat{1, "f", 0}, new(empty)),
		"remove a directory in it": j.rpc(typTunlinkat, &tunlinkat{1, "sub", posix.AT_REMOVEDIR}, new(empty)),
		"remove it by a path":      j.rpc(typTunlinkat, &tunlinkat{0, junction.Name + "/f", 0}, new(empty)),
		"remove it by Windows'":    j.rpc(typTunlinkat, &tunlinkat{0, junction.Name + `\f`, 0}, new(empty)),
	})
}

// TestSC07RenameThroughJunction: a rename does not go beyond a junction, from nowhere, and brings nothing from there.
func TestSC07RenameThroughJunction(t *testing.T) {
	j := newJunctionLab(t)
	must(t, errors.Join(j.walk(0, 1, junction.Name), j.walk(0, 2, "mine"), j.walk(0, 3, "d")))
	j.refused(map[string]error{
		"rename a file into it":         j.rpc(typTrenameat, &trenameat{0, "mine", 1, "mine"}, new(empty)),
		"rename over what is in it":     j.rpc(typTrenameat, &trenameat{0, "mine", 1, "f"}, new(empty)),
		"rename by a fid":               j.rpc(typTrename, &trename{2, 1, "mine"}, new(empty)),
		"rename a directory into it":    j.rpc(typTrename, &trename{3, 1, "d"}, new(empty)),
		"rename by a path":              j.rpc(typTrenameat, &trenameat{0, "mine", 0, junction.Name + "/mine"}, new(empty)),
		"rename by a path of Windows":   j.rpc(typTrenameat, &trenameat{0, "mine", 0, junction.Name + `\mine`}, new(empty)),
		"rename something out of it":    j.rpc(typTrenameat, &trenameat{1, "f", 0, "got"}, new(empty)),
		"rename a directory out of it":  j.rpc(typTrenameat, &trenameat{1, "sub", 3, "got"}, new(empty)),
		"rename by a path from outside": j.rpc(typTrenameat, &trenameat{0, junction.Name + "/f", 0, "got"}, new(empty)),
	})
	if b, err := os.ReadFile(j.path("mine")); err != nil || string(b) != "mine" {
		t.Errorf("the file that was to be renamed: %q, %v", b, err)
	}
	if _, err := os.Lstat(j.path("got")); err == nil {
		t.Error("something has come from outside")
	}
}
