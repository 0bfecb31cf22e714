//go:build linux

package hostfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openRoot(t testing.TB) (*Root, string) {
	t.Helper()
	dir := t.TempDir()
	r, err := OpenRoot(dir)
	check(t, err)
	t.Cleanup(func() { r.Close() })
	return r, dir
}

func TestOpenRoot(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	check(t, os.WriteFile(file, nil, 0o644))
	for path, want := range map[string]error{
		filepath.Join(dir, "missing"): syscall.ENOENT,
		file:                          syscall.ENOTDIR,
	} {
		if _, err := OpenRoot(path); !errors.Is(err, want) || !strings.Contains(Describe(err), path) {
			t.Errorf("%s: %v, want %v and the path", path, err, want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, want := range map[string]error{
		"a": nil, "...": nil, "new\nline": nil, "\xff": nil, strings.Repeat("n", 255): nil,
		"": syscall.EINVAL, ".": syscall.EINVAL, "..": syscall.EINVAL, "a/b": syscall.EINVAL, "/": syscall.EINVAL,
		"a\x00": syscall.EINVAL, strings.Repeat("n", 256): syscall.ENAMETOOLONG,
	} {
		err := CheckName(name)
		if !errors.Is(err, want) || (want != nil) != errors.Is(err, ErrName) {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
}

// TestContained: no path leads outside, whatever the symlinks say.
func TestContained(t *testing.T) {
	r, dir := openRoot(t)
	outside := t.TempDir()
	check(t, os.WriteFile(filepath.Join(outside, "f"), []byte("secret"), 0o644))
	check(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	check(t, os.Symlink(outside, filepath.Join(dir, "abs")))
	check(t, os.Symlink("../..", filepath.Join(dir, "d", "up")))
	check(t, os.Symlink("abs", filepath.Join(dir, "chain")))
	check(t, os.Symlink("/proc/self/root", filepath.Join(dir, "magic")))
	for _, path := range []string{
		"..", "../x", "/etc/passwd", "d/../..", "abs/f", "d/up/x", "chain/f", "magic/etc/passwd", "abs", "d//f", "d/.",
	} {
		if fd, err := r.OpenPath(path, unix.O_RDONLY); err == nil {
			Close(fd)
			t.Errorf("%q was opened", path)
		}
	}
	fd, err := r.OpenPath("abs", unix.O_PATH) // the link itself
	check(t, err)
	defer Close(fd)
	if st, err := StatFD(fd); err != nil || !st.IsSymlink() {
		t.Errorf("O_PATH of a link: %v, %v", st.Mode, err)
	}
}

// TestVerified: a name that leads to another inode than expected is refused.
func TestVerified(t *testing.T) {
	r, dir := openRoot(t)
	check(t, os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o644))
	check(t, os.WriteFile(filepath.Join(dir, "b"), []byte("b"), 0o644))
	st, err := StatAt(r.FD(), "a")
	check(t, err)
	fd, err := OpenVerified(r.FD(), "a", st.ID, unix.O_RDONLY)
	check(t, err)
	Close(fd)
	check(t, RenameAt(r.FD(), "b", r.FD(), "a", 0))
	if _, err := OpenVerified(r.FD(), "a", st.ID, unix.O_RDONLY); !errors.Is(err, ErrChanged) || !errors.Is(err, syscall.ESTALE) {
		t.Errorf("another file: %v", err)
	}
}

// TestLongPath works below a path far longer than PATH_MAX.
func TestLongPath(t *testing.T) {
	r, _ := openRoot(t)
	name := strings.Repeat("n", NameMax)
	cur, parts := r.FD(), []string{}
	for range 30 {
		check(t, MkdirAt(cur, name, 0o755))
		next, err := OpenDirPathAt(cur, name)
		check(t, err)
		defer Close(next)
		cur, parts = next, append(parts, name)
	}
	fd, err := OpenAt(cur, "f", unix.O_CREAT|unix.O_WRONLY, 0o644)
	check(t, err)
	want, err := StatFD(fd)
	check(t, err)
	Close(fd)
	path := strings.Join(append(parts, "f"), "/")
	fd, err = r.OpenPath(path, unix.O_RDONLY)
	check(t, err)
	defer Close(fd)
	if st, err := StatFD(fd); err != nil || st.ID != want.ID {
		t.Errorf("found %v, want %v (%v)", st.ID, want.ID, err)
	}
}

// TestAttributes sets and reads everything that a file has, by name and by an
// O_PATH descriptor, without following a symlink.
func TestAttributes(t *testing.T) {
	r, dir := openRoot(t)
	check(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	check(t, SymlinkAt("f", r.FD(), "l"))
	check(t, ChmodAt(r.FD(), "f", 0o7641))
	for name, mtime := range map[string]int64{"l": 2, "f": -1_500_000_000} {
		fd, err := OpenAt(r.FD(), name, unix.O_PATH, 0)
		check(t, err)
		check(t, UtimesFD(fd, TimeOmit, mtime))
		check(t, Close(fd))
	}
	st, err := StatAt(r.FD(), "f")
	if err != nil || st.Mode&0o7777 != 0o7641 || st.Mtime != -1_500_000_000 {
		t.Errorf("file: mode %o, mtime %d, %v", st.Mode, st.Mtime, err)
	}
	if st, err = StatAt(r.FD(), "l"); err != nil || st.Mtime != 2 {
		t.Errorf("link: mtime %d, %v", st.Mtime, err)
	}
	if err := ChmodAt(r.FD(), "l", 0o600); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("chmod of a link: %v", err)
	}
	fd, err := OpenAt(r.FD(), "f", unix.O_PATH, 0)
	check(t, err)
	defer Close(fd)
	check(t, ChmodFD(fd, 0o600))
	check(t, UtimesFD(fd, 5, 6))
	check(t, SetXattrFD(fd, "user.big", []byte(strings.Repeat("x", 2000)), 0))
	check(t, SetXattrAt(r.FD(), "f", "user.small", []byte("y"), 0))
	attrs, err := AllXattrsAt(r.FD(), "f")
	check(t, err)
	var names []string
	for _, a := range attrs {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"user.big", "user.small"}) {
		t.Errorf("attributes %q", names)
	}
	if st, err = StatFD(fd); err != nil || st.Mode&0o7777 != 0o600 || st.Mtime != 6 || st.Atime != 5 {
		t.Errorf("mode %o, atime %d, mtime %d, %v", st.Mode, st.Atime, st.Mtime, err)
	}
	if err := MknodAt(r.FD(), "dev", unix.S_IFCHR|0o600); !errors.Is(err, syscall.EPERM) {
		t.Errorf("device: %v", err)
	}
}

// TestReadDir lists with and without dots, and from a position.
func TestReadDir(t *testing.T) {
	r, dir := openRoot(t)
	var want []string
	for i := range 500 {
		name := strings.Repeat(string(rune('a'+i%26)), 1+i/3)
		want = append(want, name)
		check(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	slices.Sort(want)
	want = slices.Compact(want)
	fd, err := OpenSelf(r.FD(), unix.O_RDONLY)
	check(t, err)
	defer Close(fd)
	all, err := ReadDir(fd)
	check(t, err)
	var got []string
	for _, e := range all {
		got = append(got, e.Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d names, want %d", len(got), len(want))
	}
	middle := len(all) / 2
	check(t, SeekDir(fd, all[middle].Off))
	rest, buf := 0, make([]byte, 4096)
	for {
		more, err := ReadAllDirents(fd, buf, func(d Dirent) bool {
			if d.Name != "." && d.Name != ".." {
				rest++
			}
			return true
		})
		check(t, err)
		if !more {
			break
		}
	}
	if rest != len(all)-middle-1 {
		t.Errorf("%d entries after the middle, want %d", rest, len(all)-middle-1)
	}
	if empty, err := IsEmptyDir(fd); err != nil || empty {
		t.Errorf("empty: %v, %v", empty, err)
	}
	check(t, MkdirAt(r.FD(), "empty", 0o755))
	sub, err := OpenDirAt(r.FD(), "empty")
	check(t, err)
	defer Close(sub)
	if empty, err := IsEmptyDir(sub); err != nil || !empty {
		t.Errorf("empty: %v, %v", empty, err)
	}
}

// TestContent covers holes, ranges and files without a name.
func TestContent(t *testing.T) {
	r, _ := openRoot(t)
	fd, err := OpenTmpfile(r.FD(), unix.O_RDWR, 0o640)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		require.Missing(t, "O_TMPFILE in the temporary directory", "set TMPDIR to a directory on ext4, xfs, btrfs or tmpfs")
	}
	check(t, err)
	defer Close(fd)
	const size = 1 << 20
	check(t, PwriteFull(fd, []byte("head"), 0))
	check(t, PwriteFull(fd, []byte("tail"), size-4))
	start, end, err := NextData(fd, 64<<10, size)
	if err != nil || start < 128<<10 || end != size {
		t.Errorf("data after the hole: [%d, %d), %v", start, end, err)
	}
	if n, err := CopyRange(fd, 100, fd, size-4, 4); err != nil || n != 4 {
		t.Errorf("copy: %d, %v", n, err)
	}
	check(t, LinkFD(fd, r.FD(), "named"))
	again, err := ReopenFD(fd, unix.O_RDONLY)
	check(t, err)
	defer Close(again)
	buf := make([]byte, 4)
	if n, err := PreadFull(again, buf, 100); err != nil || n != 4 || string(buf) != "tail" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	check(t, TruncateFD(fd, 2))
	if n, err := PreadFull(again, buf, 0); err != nil || string(buf[:n]) != "he" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	check(t, FallocateFD(fd, unix.FALLOC_FL_KEEP_SIZE, 0, 1<<16))
	check(t, UnlinkAt(r.FD(), "named"))
}

// FuzzPath opens arbitrary paths below a root that is full of traps: what is
// opened is one of the files that were put there, or nothing.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"", ".", "..", "d/f", "d//f", "d/../f", "up/x", "../outside", "/etc/passwd", "abs/f", "magic/etc/passwd",
		"d/up/up/up", "d/f/", "d/f\x00x", strings.Repeat("n", 256), strings.Repeat("d/", 3000), "\xff/\xfe", "d/./f", "loop/loop",
	} {
		f.Add(seed)
	}
	r, dir := openRoot(f)
	outside := f.TempDir()
	check(f, os.WriteFile(filepath.Join(outside, "f"), nil, 0o644))
	check(f, os.MkdirAll(filepath.Join(dir, "d", "e"), 0o755))
	check(f, os.WriteFile(filepath.Join(dir, "d", "f"), nil, 0o644))
	for name, target := range map[string]string{
		"up": "..", "d/up": "../..", "abs": outside, "magic": "/proc/self/root", "loop": "loop", "here": ".",
	} {
		check(f, os.Symlink(target, filepath.Join(dir, name)))
	}
	inside := map[ID]bool{}
	check(f, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		err = unix.Lstat(path, &st)
		inside[ID{Dev: st.Dev, Ino: st.Ino}] = true
		return err
	}))
	f.Fuzz(func(t *testing.T, path string) {
		parts, err := SplitPath(path)
		for _, p := range parts {
			if p == "" || p == "." || p == ".." || strings.ContainsAny(p, "/\x00") || len(p) > NameMax {
				t.Errorf("%q has the component %q", path, p)
			}
		}
		fd, oerr := r.OpenPath(path, unix.O_PATH)
		if oerr != nil {
			return
		}
		defer Close(fd)
		if err != nil {
			t.Errorf("%q was opened although %v", path, err)
		}
		if st, err := StatFD(fd); err != nil || !inside[st.ID] {
			t.Errorf("%q leads outside (%v)", path, err)
		}
	})
}

// TestNextDataShortened looks for data in a file that is shortened at any moment: what is not there any more is no data, and no error.
func TestNextDataShortened(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	check(t, err)
	defer f.Close()
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			_, err := f.WriteAt([]byte("data"), 0)
			if err = errors.Join(err, f.Truncate(0)); err != nil {
				stopped <- err
				return
			}
		}
	}()
	for range 50000 {
		if _, _, err := NextData(int(f.Fd()), 0, 4); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	check(t, <-stopped)
}
