package lexical

import (
	"path/filepath"
	"testing"
)

func TestLexical(t *testing.T) {
	const no = "" // path is not in dir
	for _, c := range []struct{ path, dir, rel string }{
		{"/a", "/a", "."},
		{"/a/b", "/a", "b"},
		{"/a/b/c", "/a", "b/c"},
		{"/ab", "/a", no},
		{"/a", "/ab", no},
		{"/a", "/a/b", no},
		{"/b", "/a", no},

		{"/", "/", "."},
		{"/a", "/", "a"},
		{"/", "/a", no},

		{"/a/", "/a", "."},
		{"/a", "/a/", "."},
		{"/a/b/", "/a/", "b"},
		{"/ab", "/a/", no},
		{"/a//b", "/a", "b"},

		{"/a/..", "/a", no},
		{"/a/../b", "/a", no},
		{"/a/b/..", "/a", "."},
		{"/a/..b", "/a", "..b"},
		{"/a/...", "/a", "..."},
		{"/a/b", "/x/../a", "b"},

		{"a/b", "a", "b"},
		{"a", ".", "a"},
		{"a", "", "a"},
		{"", ".", "."},
		{"./a", ".", "a"},
		{".", "a", no},
		{"..", ".", no},
		{"../a", ".", no},
		{"a", "..", no}, // who knows what the directory is called
		{"../a/b", "../a", "b"},

		{"a", "/a", no},
		{"a", "/", no},
		{"", "/", no},
		{"/a", "a", no},
		{"/a", ".", no},
		{"/a", "", no},
	} {
		path, dir := filepath.FromSlash(c.path), filepath.FromSlash(c.dir)
		rel, in := Rel(dir, path)
		if filepath.ToSlash(rel) != c.rel || in != (c.rel != no) {
			t.Errorf("Rel(%q, %q) is %q, %v; want %q", dir, path, rel, in, c.rel)
		}
		if got := Within(path, dir); got != in {
			t.Errorf("Within(%q, %q) is %v", path, dir, got)
		}
		if got, want := Below(path, dir), in && rel != "."; got != want {
			t.Errorf("Below(%q, %q) is %v", path, dir, got)
		}
	}
}
