package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A witness that never accuses is no witness: every kind of difference must be
// seen.
func TestEveryDifferenceIsSeen(t *testing.T) {
	cases := map[string]struct {
		change func(dir string) error
		want   string
	}{
		"content with size and mtime kept": {func(d string) error {
			return keepingTime(d+"/file", func() error { return os.WriteFile(d+"/file", []byte("jello"), 0) })
		}, "content"},
		"mode":              {func(d string) error { return unix.Chmod(d+"/file", 0o4755) }, "mode"},
		"mtime by 1 ns":     {func(d string) error { return bump(d+"/file", 1) }, "mtime"},
		"directory's mtime": {func(d string) error { return bump(d+"/empty", 1) }, "mtime"},
		"xattr": {func(d string) error {
			return unix.Setxattr(d+"/file", "user.k", []byte("w"), 0)
		}, "xattrs"},
		"symlink target": {func(d string) error {
			return keepingTime(d, func() error {
				_ = os.Remove(d + "/link")
				return os.Symlink("elsewhere", d+"/link")
			})
		}, "target"},
		"broken hard link": {func(d string) error {
			return keepingTime(d, func() error {
				_ = os.Remove(d + "/hard")
				return os.WriteFile(d+"/hard", []byte("hello"), 0o644)
			})
		}, "hard links"},
		"missing empty directory": {func(d string) error { return os.Remove(d + "/empty") }, "only in the first"},
		"extra file":              {func(d string) error { return os.WriteFile(d+"/n\newline\xff", nil, 0o644) }, "only in the second"},
		"type": {func(d string) error {
			_ = os.Remove(d + "/file")
			return unix.Mkfifo(d+"/file", 0o644)
		}, "type"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := makeTree(t)
			snap := filepath.Join(t.TempDir(), "snap")
			var out bytes.Buffer
			if code := run([]string{"-save", snap, dir}, &out, &out); code != 0 {
				t.Fatalf("save: %d\n%s", code, &out)
			}
			if code := run([]string{"-against", snap, dir}, &out, &out); code != 0 {
				t.Fatalf("unchanged tree: %d\n%s", code, &out)
			}
			if err := c.change(dir); err != nil {
				t.Fatal(err)
			}
			out.Reset()
			code := run([]string{"-against", snap, dir}, &out, &out)
			if code != 1 || !strings.Contains(out.String(), c.want) {
				t.Errorf("exit %d, want 1 and %q in:\n%s", code, c.want, &out)
			}
		})
	}
}

func makeTree(t *testing.T) string {
	t.Helper()
	d := t.TempDir()
	for _, err := range []error{
		os.WriteFile(d+"/file", []byte("hello"), 0o644),
		os.WriteFile(d+"/one", []byte("hello"), 0o644),
		os.Link(d+"/one", d+"/hard"),
		os.Symlink("file", d+"/link"),
		os.Mkdir(d+"/empty", 0o755),
		unix.Setxattr(d+"/file", "user.k", []byte("v"), 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func bump(path string, d time.Duration) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Chtimes(path, time.Time{}, st.ModTime().Add(d))
}

func keepingTime(path string, f func() error) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return os.Chtimes(path, time.Time{}, st.ModTime())
}
