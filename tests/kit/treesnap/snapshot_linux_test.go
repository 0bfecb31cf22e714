package treesnap_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/fixture"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

func TestEqualToItself(t *testing.T) {
	root := t.TempDir()
	fixture.Odd(t, root)
	before := treesnap.MustTake(t, root)
	if len(before.Entries) < 10 {
		t.Fatalf("only %d entries recorded", len(before.Entries))
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, root))
}

// A copy made by other means is equal too: nothing depends on inode numbers.
func TestEqualToCopy(t *testing.T) {
	root := t.TempDir()
	fixture.Small(t, root)
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.Mkdir(copied, 0o755); err != nil {
		t.Fatal(err)
	}
	fixture.Small(t, copied)
	treesnap.AssertEqual(t, treesnap.MustTake(t, root), treesnap.MustTake(t, copied), treesnap.Options{IgnoreMtime: true})
}

// Every kind of difference is noticed, and only where it is.
func TestNoticesEachDifference(t *testing.T) {
	cases := []struct {
		name string
		make func(root string) error
		path string // the path whose line must tell
		want string
	}{
		{"content", func(r string) error { return rewrite(r+"/small.txt", "hello WORLD") }, "small.txt", "content"},
		{"size", func(r string) error { return rewrite(r+"/small.txt", "hello") }, "small.txt", "size"},
		{"mode", func(r string) error { return os.Chmod(r+"/run.sh", 0o644) }, "run.sh", "mode"},
		{"setgid", func(r string) error { return os.Chmod(r+"/run.sh", 0o755|fs.ModeSetgid) }, "run.sh", "mode"},
		{"mtime by one nanosecond", func(r string) error { return setMtime(r+"/small.txt", fixture.Time.Add(1)) }, "small.txt", "mtime"},
		{"mtime of a directory", func(r string) error { return setMtime(r+"/src", fixture.Time.Add(time.Second)) }, "src", "mtime"},
		{"gone", func(r string) error { return os.Remove(r + "/empty.txt") }, "empty.txt", "missing"},
		{"new", func(r string) error { return os.WriteFile(r+"/new", nil, 0o600) }, "new", "unexpected"},
		{"type", func(r string) error { os.Remove(r + "/empty.txt"); return os.Mkdir(r+"/empty.txt", 0o755) }, "empty.txt", "type"},
		{"target", func(r string) error { os.Remove(r + "/link"); return os.Symlink("elsewhere", r+"/link") }, "link", "target"},
		{"xattr", func(r string) error { return unix.Lsetxattr(r+"/run.sh", "user.test", []byte("x"), 0) }, "run.sh", "xattrs"},
		{"flags", func(r string) error { return fixture.NoDump(r + "/run.sh") }, "run.sh", "flags"},
		{"flags of a directory", func(r string) error { return fixture.NoDump(r + "/src") }, "src", "flags"},
		{"hard link made", func(r string) error { os.Remove(r + "/empty.txt"); return os.Link(r+"/small.txt", r+"/empty.txt") }, "small.txt", "hard link"},
		{"hard link broken", func(r string) error {
			os.Remove(r + "/pair-b")
			return os.WriteFile(r+"/pair-b", []byte("one inode"), 0o644)
		}, "pair-b", "hard link"},
		{"fifo", func(r string) error { os.Remove(r + "/empty.txt"); return unix.Mkfifo(r+"/empty.txt", 0o644) }, "empty.txt", "type"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			fixture.Small(t, root)
			before := treesnap.MustTake(t, root)
			if err := c.make(root); err != nil {
				t.Fatal(err)
			}
			diff := treesnap.Diff(before, treesnap.MustTake(t, root), treesnap.Options{})
			for _, line := range diff {
				if strings.HasPrefix(line, fmt.Sprintf("%q:", c.path)) && strings.Contains(line, c.want) {
					return
				}
			}
			t.Errorf("no line about %q (%s) in:\n%s", c.path, c.want, strings.Join(diff, "\n"))
		})
	}
}

// A hole and written zeros are the same content.
func TestHoles(t *testing.T) {
	sparse, dense := t.TempDir(), t.TempDir()
	const size = 1 << 20
	data := make([]byte, size)
	copy(data[512<<10:], "in the middle")
	if err := os.WriteFile(dense+"/f", data, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(sparse+"/f", os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("in the middle"), 512<<10); err != nil {
		t.Fatal(err)
	}
	treesnap.AssertEqual(t, treesnap.MustTake(t, dense), treesnap.MustTake(t, sparse), treesnap.Options{IgnoreMtime: true})
}

func TestDeeperThanPathMax(t *testing.T) {
	root := t.TempDir()
	fixture.Deep(t, root, 20, strings.Repeat("d", 255))
	s := treesnap.MustTake(t, root)
	longest := 0
	for p := range s.Entries {
		longest = max(longest, len(p))
	}
	if longest < 20*255 {
		t.Errorf("longest path recorded has %d bytes", longest)
	}
}

func rewrite(path, content string) error {
	if err := os.WriteFile(path, []byte(content), 0); err != nil {
		return err
	}
	return setMtime(path, fixture.Time)
}

func setMtime(path string, at time.Time) error { return os.Chtimes(path, at, at) }
