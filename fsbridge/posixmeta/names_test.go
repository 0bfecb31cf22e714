package posixmeta

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestWN_01_CaseCollision: the second of two names that differ only in case is
// refused, whatever was made, removed or changed from outside before.
func TestWN_01_CaseCollision(t *testing.T) {
	x := NewIndex(2)
	dir := []string{"Foo", "bar"}
	version, lists := int64(1), 0
	check := func(name string) error {
		return x.Check("d", version, func() ([]string, error) { lists++; return dir, nil }, name)
	}
	change := func(made, removed string) {
		if made != "" {
			dir = append(dir, made)
		}
		dir = slices.DeleteFunc(dir, func(n string) bool { return n == removed })
		x.Changed("d", version, version+1, made, removed)
		version++
	}
	for name, free := range map[string]bool{"foo": false, "FOO": false, "Foo": true, "foo2": true, "BAR": false, "fo": true} {
		if err := check(name); (err == nil) != free || err != nil && !errors.Is(err, ErrCollision) {
			t.Errorf("%s: %v", name, err)
		}
	}
	change("Straße", "")
	change("", "Foo")
	if err := check("foo"); err != nil {
		t.Errorf("foo, after Foo was removed: %v", err)
	}
	if err := check("STRASSE"); err != nil {
		t.Errorf("another name: %v", err)
	}
	if err := check("sTRAßE"); !errors.Is(err, ErrCollision) {
		t.Errorf("of one just made: %v", err)
	}
	if lists != 1 {
		t.Errorf("listed %d times", lists)
	}
	dir = append(dir, "OUTSIDE")
	version += 10
	if err := check("outside"); !errors.Is(err, ErrCollision) || lists != 2 {
		t.Errorf("made from outside: %v, listed %d times", err, lists)
	}
	x.Changed("d", version-1, version+1, "late", "") // not what we knew: forgotten
	version++
	if _ = check("z"); lists != 3 {
		t.Errorf("after a change between two of ours: listed %d times", lists)
	}
	for i := range 5 { // makes room
		_ = x.Check(fmt.Sprint(i), 1, func() ([]string, error) { return nil, nil }, "n")
	}
	if len(x.dirs) != 2 || x.lru.Len() != 2 {
		t.Errorf("%d directories are remembered", len(x.dirs))
	}
	failed := errors.New("cannot list")
	if err := x.Check("new", 1, func() ([]string, error) { return nil, failed }, "n"); err != failed {
		t.Errorf("a listing that fails: %v", err)
	}
}

// TestWN_02_ReservedNames: what Windows refuses or means something else by is refused.
func TestWN_02_ReservedNames(t *testing.T) {
	bad := []string{
		"CON", "con", "Nul", "PRN", "AUX", "COM1", "lpt9", "COM¹", "LPT³", "CONIN$", "conout$",
		"nul.txt", "CON.tar.gz", "con .txt", "COM1.", "name.", "name ", "...", "a<b", "a>b", "a:b", "a\"b", "a|b",
		"a?b", "a*b", `a\b`, "a\nb", "\x01", "not\xffutf8", strings.Repeat("x", 256), strings.Repeat("😀", 128),
	}
	for _, name := range bad {
		if err := CheckName(name); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"a", "CONSOLE", "COM", "COM10", "COM0", "lpt0.txt", "COMX", "com1x", "nul1", ".gitignore", "a.b.c", "a b", "name. x", "LPT", "ü", "$", strings.Repeat("x", 255)} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "a/b", "a\x00b"} {
		if err := CheckName(name); !errors.Is(err, ErrName) {
			t.Errorf("%q is no name, but %v", name, err)
		}
	}
}

// FuzzName: folding is stable and never splits what Windows takes for one.
func FuzzName(f *testing.F) {
	for _, s := range []string{"a", "CON", "con.txt", "a:b", "x.", " ", "\xff\xfe", "\uf03a", "\uf07f\uf07f", "COM¹.x", "ſtraße", "İ", "\uf000\x01", "..."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		folded := Fold(name)
		if Fold(folded) != folded || Fold(strings.ToUpper(folded)) != Fold(strings.ToUpper(name)) {
			t.Errorf("%q folds to %q", name, folded)
		}
	})
}
