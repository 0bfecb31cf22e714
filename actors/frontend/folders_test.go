package frontend

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
)

func twoFolders(t *testing.T) (Folders, string) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := Folders{{filepath.Join(base, "a"), "1"}, {filepath.Join(base, "b"), "label"}}
	for _, d := range f {
		if err := os.MkdirAll(filepath.Join(d.Path, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink("b", link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	return f, link
}

// One rule for all who name a folder: its index, its label, its path, a link to
// it; an index before a label that looks like one.
func TestFindFolder(t *testing.T) {
	f, link := twoFolders(t)
	for name, want := range map[string]int{
		"": 0, "0": 0, "1": 1, "label": 1, f[0].Path: 0, f[1].Path: 1, f[1].Path + "/": 1, link: 1,
		"2": -1, "-1": -1, "none": -1, filepath.Dir(link): -1, filepath.Join(f[0].Path, "sub"): -1,
	} {
		i, err := f.Find(name)
		if want < 0 {
			if !errors.Is(err, messages.ErrNoDirectory) {
				t.Errorf("%q: %d, %v", name, i, err)
			}
			continue
		}
		if err != nil || i != want {
			t.Errorf("%q: %d, %v; want %d", name, i, err, want)
		}
	}
}

func TestCommandDirectory(t *testing.T) {
	f, link := twoFolders(t)
	a, b := f[0].Path, f[1].Path
	for _, c := range []struct{ name, cwd, want string }{
		{"", "", a}, {"label", "", b}, {"", "sub", a + "/sub"}, {"", "sub/../none", a + "/none"}, {"", a + "/sub", a + "/sub"},
		{"", b + "/sub", b + "/sub"}, {link, "sub", b + "/sub"}, {"", link + "/sub", b + "/sub"}, {"label", link, b},
		{"0", b, ""}, {"", "..", ""}, {"", "../b", ""}, {"", "/", ""}, {"", filepath.Dir(a), ""}, {"label", a + "x", ""},
	} {
		dir, err := f.Dir(c.name, c.cwd)
		if c.want == "" {
			if !errors.Is(err, api.ErrOutside) {
				t.Errorf("%q, %q: %s, %v", c.name, c.cwd, dir, err)
			}
			continue
		}
		if err != nil || dir != filepath.FromSlash(c.want) {
			t.Errorf("%q, %q: %s, %v; want %s", c.name, c.cwd, dir, err, c.want)
		}
	}
}

func TestEnviron(t *testing.T) {
	base := []string{"PATH=/bin", "A=old", "AB=kept", "odd"}
	got, err := Environ(base, map[string]string{"Z": "z=", "A": ""})
	if want := []string{"PATH=/bin", "AB=kept", "odd", "A=", "Z=z="}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if base[1] != "A=old" {
		t.Error("the base was changed")
	}
	t.Setenv("FROM_US", "x")
	if got, err = Environ(nil, map[string]string{"A": "b"}); err != nil || !slices.Contains(got, "FROM_US=x") || !slices.Contains(got, "A=b") {
		t.Errorf("%q, %v", got, err)
	}
	if got, err = Environ(nil, nil); got != nil || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []map[string]string{{"": "x"}, {"A=B": "x"}, {"A\x00": "x"}, {"A": "\x00"}} {
		if _, err := Environ(base, bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
