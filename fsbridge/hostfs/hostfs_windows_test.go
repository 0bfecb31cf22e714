package hostfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

func openFolder(t *testing.T) (*Root, string) {
	t.Helper()
	dir := t.TempDir()
	r, err := OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r, dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func namesOf(t *testing.T, fd int) (names []string) {
	t.Helper()
	entries, err := ReadDirAt(fd)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return names
}

// What Windows cannot do, everybody who asks is told.
func TestAbilitiesOfWindows(t *testing.T) {
	r, dir := openFolder(t)
	cannot, err := Try(r.FD())
	must(t, err)
	want := []Ability{CanExchange, CanSymlink, CanFifo, CanMode, CanXattr, CanACL, CanTmpfile, CanSeekHole, CanNanotimes}
	cannot = slices.DeleteFunc(cannot, func(a Ability) bool {
		return a == CanHole || a == CanAllocate // NTFS gives a file that is made longer its space, and ahead, too; wine neither
	})
	if !slices.Equal(cannot, want) {
		t.Errorf("it cannot %q, not %q", cannot, want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v is left: %v", left, err)
	}
}

func TestFilesOnWindows(t *testing.T) {
	r, dir := openFolder(t)
	for _, path := range []string{"missing", `file\x`} {
		if _, err := OpenRoot(filepath.Join(dir, path)); !errors.Is(err, posix.ENOENT) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for i := range 3 {
		must(t, ReplaceFile(r.FD(), "kept", fmt.Append(nil, "content ", i), nil))
	}
	if b, err := ReadSmall(r.FD(), "KEPT", 100); err != nil || string(b) != "content 2" {
		t.Errorf("%q, %v", b, err)
	}
	st, err := StatAt(r.FD(), "KEPT")
	must(t, err)
	if name, exact := DiskName(r.FD(), "KEPT", &st); name != "kept" || exact {
		t.Errorf("the disk has %q, exact: %v", name, exact)
	}
	must(t, MkdirAt(r.FD(), "sub", 0o700))
	if err := RenameNew(r.FD(), "kept", r.FD(), "sub"); !errors.Is(err, posix.EEXIST) {
		t.Error(err)
	}
	must(t, RenameNew(r.FD(), "kept", r.FD(), "new"))
	fd, err := MakeAt(r.FD(), "made", posix.S_IFREG|0o400, "", func(fd int) error { return PwriteFull(fd, []byte("made"), 0) })
	must(t, err)
	must(t, Close(fd))
	if st, err := StatAt(r.FD(), "made"); err != nil || st.Mode != posix.S_IFREG|0o444 || st.Size != 4 {
		t.Errorf("%+v, %v", st, err)
	}
	_, given, err := AllowAt(r.FD(), "made", 0o200, func() error {
		fd, err := OpenAt(r.FD(), "made", posix.O_WRONLY, 0)
		if err == nil {
			err = Close(fd)
		}
		return err
	})
	if err != nil || !given {
		t.Errorf("given %v, %v", given, err)
	}
	if got := namesOf(t, r.FD()); !slices.Equal(got, []string{"made", "new", "sub"}) {
		t.Errorf("%q", got)
	}
	lasting, err := r.Lasting()
	if same, certain := lasting.Same(lasting); err != nil || !same || !certain || lasting.FileSystem == "" {
		t.Errorf("%+v %v %v, %v", lasting, same, certain, err)
	}
}

func TestContentOnWindows(t *testing.T) {
	r, _ := openFolder(t)
	must(t, WriteNewAt(r.FD(), "src", strings.Repeat("0123456789", 100_000), 0o644))
	src, err := OpenAt(r.FD(), "src", posix.O_RDWR, 0)
	must(t, err)
	defer func() { must(t, Close(src)) }()
	must(t, Zero(src, 10, 500_000))
	dst, err := OpenAt(r.FD(), "dst", posix.O_RDWR|posix.O_CREAT|posix.O_EXCL, 0o644)
	must(t, err)
	defer func() { must(t, Close(dst)) }()
	must(t, CopyData(dst, src, 1_000_000))
	a, err := ReadSmall(r.FD(), "src", 1<<20)
	must(t, err)
	b, err := ReadSmall(r.FD(), "dst", 1<<20)
	must(t, err)
	if string(a) != string(b) || string(a[:12]) != "0123456789\x00\x00" || string(a[499_999:500_002]) != "\x0001" {
		t.Errorf("%q ... %q", a[:12], a[499_999:500_002])
	}
	must(t, SyncFD(dst))
	must(t, SyncFS(r.FD()))
}

// A deep tree goes away with all that is read-only in it, also while directories of it are open.
func TestTreesOnWindows(t *testing.T) {
	r, dir := openFolder(t)
	path := "top"
	must(t, MkdirAt(r.FD(), "top", 0o700))
	for i := range 10 {
		at, err := r.OpenPath(path, posix.O_PATH|posix.O_DIRECTORY)
		must(t, err)
		name := fmt.Sprint("level", i)
		must(t, MkdirAt(at, name, 0o700))
		must(t, WriteNewAt(at, "file", "content", 0o444))
		must(t, Close(at))
		path += "/" + name
	}
	seen := 0
	must(t, r.Walk(func([]string, string, *Stat) bool { seen++; return true }))
	if seen != 21 {
		t.Errorf("%d entries, not 21", seen)
	}
	deep, err := r.OpenPath(path, posix.O_RDONLY)
	must(t, err)
	must(t, RenameAt(r.FD(), "top", r.FD(), "moved", 0))
	if up, err := NameOf(deep); err != nil || up != "level9" {
		t.Errorf("%q, %v", up, err)
	}
	must(t, WriteNewAt(deep, "made", "", 0o644))
	if _, err := os.Stat(filepath.Join(dir, strings.Replace(filepath.FromSlash(path), "top", "moved", 1), "made")); err != nil {
		t.Error(err)
	}
	must(t, RemoveAll(context.Background(), r.FD(), "moved", nil))
	if empty, err := IsEmptyDir(r.FD()); err != nil || !empty {
		t.Errorf("empty: %v, %v", empty, err)
	}
	must(t, Close(deep))
}
