//go:build linux

package mediate

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestMBNamed: absolute paths lead to the same, however they are written, and the folder's name is no
// other's that begins like it. (Outside, only directories can be made.)
func TestMBNamed(t *testing.T) {
	for _, covered := range []bool{false, true} {
		j := newJail(t)
		j.covered = covered
		out := j.sh(`set -e; d=` + j.folder + `
			mkdir $d/a ${d}er; echo 1 >$d/a/f; echo 2 >$d//g; echo 3 >$d/a/../h; echo 4 >$d/./i; echo 5 >/.$d/j; mkdir ${d}er/k
			mkdir $d/a/b/; mv $d/g $d/a/b/g; ln $d/h $d/n; rm $d/h; ln -s $d/a $d/l; echo 7 >$d/l/m; ln -s $d $d/a/up; echo 8 >$d/a/up/o
			touch -d @1 $d/a/f; chmod 600 $d/a/f; stat -c '%a %Y' $d/a/f; rmdir $d 2>&- || echo not empty; mkdir $d 2>&- || echo there
			cd a; find $d -type f | sort | xargs cat; ls ${d}er`)
		if want := "600 1\nnot empty\nthere\n2\n1\n7\n4\n5\n3\n8\nk\n"; out != want {
			t.Errorf("covered %v: got %q, want %q", covered, out, want)
		}
		if seen := j.hooks.take(); !slices.Contains(seen, "create f") || slices.Contains(seen, "mkdir k") {
			t.Errorf("asked %v", seen)
		}
	}
}

// TestMBNameOfAnother: a path by which the folder was there leads to what is there now.
func TestMBNameOfAnother(t *testing.T) {
	j := newJail(t)
	in := j.start("exec", "sh", "-c", `set -e; echo 1 >`+j.folder+`/one; echo ready; read line; mkdir `+j.folder+`/two; echo 3 >three`)
	if got := in.hear(); got != "ready" {
		t.Fatal(got)
	}
	moved := j.base + ".moved"
	check(t, os.Rename(j.base, moved))
	defer func() {
		check(t, os.RemoveAll(j.base))
		check(t, os.Rename(moved, j.base))
	}()
	check(t, os.MkdirAll(j.folder, 0o755))
	in.say("go")
	in.ok()
	for dir, want := range map[string][]string{j.folder: {"two"}, filepath.Join(moved, "folder"): {"one", "three"}} {
		var names []string
		list, err := os.ReadDir(dir)
		check(t, err)
		for _, e := range list {
			names = append(names, e.Name())
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s has %v, want %v", dir, names, want)
		}
	}
}
