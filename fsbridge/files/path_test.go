package files

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

func TestClean(t *testing.T) {
	long := strings.Repeat("n", hostfs.NameMax)
	for _, c := range []struct {
		in, want string
		err      error
	}{
		{in: "", want: "."},
		{in: ".", want: "."},
		{in: "./", want: "."},
		{in: "a/b", want: "a/b"},
		{in: "a//b/./c/", want: "a/b/c"},
		{in: "a/../b", want: "b"},
		{in: "a/..", want: "."},
		{in: "..a/...", want: "..a/..."},
		{in: "a\xff/\x80", want: "a\xff/\x80"},
		{in: "a\nb \\..\\c", want: "a\nb \\..\\c"},
		{in: long, want: long},
		{in: "/work/dir", want: "."},
		{in: "/work/dir/", want: "."},
		{in: "/work/dir/a/../b", want: "b"},
		{in: "/work/x/../dir/a", want: "a"},
		{in: "..", err: ErrOutside},
		{in: "../../etc/passwd", err: ErrOutside},
		{in: "a/../../b", err: ErrOutside},
		{in: "../dir/a", err: ErrOutside},
		{in: "/", err: ErrOutside},
		{in: "/work", err: ErrOutside},
		{in: "/work/dirt", err: ErrOutside},
		{in: "/work/dir/../dirt", err: ErrOutside},
		{in: "/etc/passwd", err: ErrOutside},
		{in: "a\x00b", err: ErrPath},
		{in: "/work/dir/\x00", err: ErrPath},
		{in: "a/" + long + "n/b", err: ErrPath},
	} {
		got, err := Clean(c.in, "/work/dir")
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("Clean(%q) = %q, %v; want %q, %v", c.in, got, err, c.want, c.err)
		}
	}
	if got, err := Clean("/etc", "/"); got != "etc" || err != nil {
		t.Errorf("below the root of all: %q, %v", got, err)
	}
}

// walk follows a path name by name, as somebody would on foot, and tells whether
// it ever could be outside of root at its end.
func walk(p, root string) (names []string, outside bool) {
	if strings.HasPrefix(p, "/") {
		var all []string
		for name := range strings.SplitSeq(p, "/") {
			all = step(all, name)
		}
		for name := range strings.SplitSeq(strings.Trim(root, "/"), "/") {
			if len(all) == 0 || all[0] != name {
				return nil, true
			}
			all = all[1:]
		}
		return all, false
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == ".." && len(names) == 0 {
			return nil, true
		}
		names = step(names, name)
	}
	return names, false
}

func step(names []string, name string) []string {
	switch {
	case name == "" || name == ".":
		return names
	case name != "..":
		return append(names, name)
	case len(names) > 0:
		return names[:len(names)-1]
	}
	return nil
}

// FuzzPathNormalize: the result is in root, or there is an error; there is one
// exactly if the path leads out or is none.
func FuzzPathNormalize(f *testing.F) {
	for _, s := range []string{"", "a/b", "../x", "/work/dir/a", "/work/dir/../../etc", "a/\x00", "a\xff//./..", strings.Repeat("d/", 400) + ".."} {
		f.Add(s)
	}
	const root = "/work/dir"
	f.Fuzz(func(t *testing.T, p string) {
		got, err := Clean(p, root)
		names, outside := walk(p, root)
		if err != nil {
			long := false
			for _, n := range names {
				long = long || len(n) > hostfs.NameMax
			}
			nul := strings.Contains(p, "\x00")
			switch {
			case got != "":
				t.Errorf("Clean(%q) = %q beside an error", p, got)
			case errors.Is(err, ErrOutside) && !outside, errors.Is(err, ErrPath) && !long && !nul,
				!errors.Is(err, ErrOutside) && !errors.Is(err, ErrPath):
				t.Errorf("Clean(%q): %v", p, err)
			}
			return
		}
		want := strings.Join(names, "/")
		if want == "" {
			want = "."
		}
		if outside || got != want {
			t.Fatalf("Clean(%q) = %q, want %q (outside %v)", p, got, want, outside)
		}
		if path.IsAbs(got) || strings.Contains("/"+got+"/", "/../") || strings.Contains(got, "\x00") {
			t.Fatalf("Clean(%q) = %q", p, got)
		}
		for _, again := range []string{got, root + "/" + got} {
			if twice, err := Clean(again, root); twice != got || err != nil {
				t.Fatalf("Clean(%q) = %q, %v; it was clean", again, twice, err)
			}
		}
	})
}
