package hostfs

import (
	"os"
	"path/filepath"
	"testing"
)

func TestU3LastingSame(t *testing.T) {
	a := Lasting{FileSystem: "x", Handle: "1:aa", Ino: 5}
	for name, c := range map[string]struct {
		b             Lasting
		same, certain bool
	}{
		"itself":                           {a, true, true},
		"another handle":                   {Lasting{"x", "1:bb", 5}, false, true},
		"another number, the same handle":  {Lasting{"x", "1:aa", 6}, true, true},
		"another file system":              {Lasting{"y", "1:aa", 5}, false, true},
		"a file system that says no more":  {Lasting{"", "1:aa", 5}, true, true},
		"no handle":                        {Lasting{"x", "", 5}, true, false},
		"no handle, another number":        {Lasting{"x", "", 6}, false, false},
		"no handle on another file system": {Lasting{"y", "", 5}, false, false},
	} {
		for _, pair := range [][2]Lasting{{a, c.b}, {c.b, a}} {
			if same, certain := pair[0].Same(pair[1]); same != c.same || certain != c.certain {
				t.Errorf("%s: same %v, certain %v", name, same, certain)
			}
		}
	}
}

// A directory stays itself when it is renamed, and one that takes its place is another.
func TestU3Lasting(t *testing.T) {
	base := t.TempDir()
	of := func(path string) Lasting {
		t.Helper()
		r, err := OpenRoot(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		l, err := r.Lasting()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	d, e := filepath.Join(base, "d"), filepath.Join(base, "e")
	if err := os.Mkdir(d, 0o700); err != nil {
		t.Fatal(err)
	}
	first := of(d)
	if err := os.Rename(d, e); err != nil {
		t.Fatal(err)
	}
	if same, _ := first.Same(of(e)); !same {
		t.Errorf("renamed: %+v is %+v now", first, of(e))
	}
	for range 50 { // an inode number comes again soon, a handle does not
		if err := os.RemoveAll(e); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(e, 0o700); err != nil {
			t.Fatal(err)
		}
		now := of(e)
		if same, certain := first.Same(now); same && (certain || first.Ino != now.Ino) {
			t.Fatalf("made anew: %+v is taken for %+v", now, first)
		}
	}
}
