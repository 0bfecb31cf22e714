package posix

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestOpenErrors(t *testing.T) {
	f := newFolder(t)
	f.write("file", "x")
	f.mkdir("dir")
	for _, c := range []struct {
		name  string
		flags int
		want  error
	}{
		{"file", O_RDONLY, nil},
		{"FILE", O_RDWR, nil}, // case does not count
		{".", O_RDONLY, nil},
		{"dir", O_RDONLY, nil},
		{"dir", O_PATH, nil},
		{"file", O_PATH, nil},
		{"file", O_RDONLY | O_CREAT, nil},
		{"new", O_WRONLY | O_CREAT | O_EXCL, nil},
		{"missing", O_RDONLY, ENOENT},
		{"missing", O_PATH, ENOENT},
		{"", O_RDONLY, ENOENT},
		{"file", O_RDONLY | O_DIRECTORY, ENOTDIR},
		{"file", O_PATH | O_DIRECTORY, ENOTDIR},
		{"dir", O_WRONLY, EISDIR},
		{"dir", O_RDWR, EISDIR},
		{"dir", O_RDONLY | O_CREAT, EISDIR},
		{".", O_RDONLY | O_CREAT, EISDIR},
		{"file", O_WRONLY | O_CREAT | O_EXCL, EEXIST},
		{"dir", O_WRONLY | O_CREAT | O_EXCL, EEXIST},
		{".", O_TMPFILE | O_RDWR, EOPNOTSUPP},
		{"..", O_RDONLY, EINVAL},
		{`dir\x`, O_RDONLY, EINVAL},
		{"file:stream", O_WRONLY | O_CREAT, EINVAL},
		{"nul.txt", O_WRONLY | O_CREAT, EINVAL},
		{"file.", O_RDONLY, EINVAL},
		{"\xff", O_RDONLY, EILSEQ},
		{strings.Repeat("x", 256), O_RDONLY, ENAMETOOLONG},
	} {
		fd, err := Openat(f.fd, c.name, c.flags, 0o644)
		if err != c.want {
			t.Errorf("open of %.20q with %#x: %v, not %v", c.name, c.flags, err, c.want)
		}
		if err == nil {
			f.must(Close(fd))
		}
	}
	file := f.open("file", O_RDONLY)
	f.refused(ENOTDIR)(Openat(file, "x", O_RDONLY, 0))
	f.refused(EBADF)(Openat(1<<20, "x", O_RDONLY, 0))
	f.refused(EBADF)(Openat(-1, "x", O_RDONLY, 0))
	if err := Close(77777); err != EBADF {
		t.Error(err)
	}
}

func TestOpenOfPaths(t *testing.T) {
	f := newFolder(t)
	f.write("file", "x")
	for path, want := range map[string]error{
		f.path:                               nil,
		f.path + `\file`:                     nil,
		strings.ReplaceAll(f.path, `\`, "/"): nil,
		f.path + `\.\x\..\file`:              nil,
		`\\?\` + f.path:                      nil,
		`\\?\` + f.path + `\..`:              EINVAL,
		`\\.\C:`:                             EINVAL,
		f.path + `\missing`:                  ENOENT,
		f.path + `\missing\file`:             ENOENT,
		f.path + `\file\file`:                ENOTDIR,
		f.path + `\a:b`:                      EINVAL,
		"":                                   ENOENT,
	} {
		fd, err := Open(path, O_RDONLY, 0)
		if err != want && (want != ENOTDIR || err != ENOENT) { // Windows says of what is below a file that it is missing
			t.Errorf("%q: %v, not %v", path, err, want)
		}
		if err == nil {
			f.must(Close(fd))
		}
	}
	t.Chdir(f.path)
	f.must(Close(f.ok(Open("file", O_RDONLY, 0))))
	f.must(Rename("file", f.path+`\renamed`))
	f.refused(ENOENT)(Open("file", O_RDONLY, 0))
	f.must(Close(f.ok(Open("renamed", O_RDONLY, 0))))
}

// Windows has paths of 32,000 characters. Wine has those of Linux, of which 4,095 bytes are the most.
func TestLongPaths(t *testing.T) {
	f := newFolder(t)
	name := strings.Repeat("d", 200)
	levels := 150
	if !longPaths(name, 25) {
		t.Log("there are no paths of 5,000 characters here (wine)")
		levels = 18
	}
	below := func(depth int) string { return strings.TrimSuffix("./"+strings.Repeat(name+"/", depth), "/") }
	for depth := 1; depth <= levels; depth++ {
		at := f.ok(OpenBeneath(f.fd, below(depth-1), O_PATH|O_DIRECTORY))
		f.must(Mkdirat(at, name, 0o755))
		f.must(Close(at))
		at = f.ok(OpenBeneath(f.fd, below(depth), O_PATH|O_DIRECTORY))
		path, err := PathOf(at)
		if err != nil || len(path) != len(f.path)+201*depth {
			t.Fatalf("path of %d levels: %d characters, %v", depth, len(path), err)
		}
		again := f.ok(Open(path, O_PATH|O_DIRECTORY, 0))
		if f.stat(again) != f.stat(at) {
			t.Error("the path leads to something else")
		}
		f.must(Close(again))
		f.must(Close(at))
	}
	for depth := levels; depth > 0; depth-- {
		up := f.ok(OpenBeneath(f.fd, below(depth-1), O_PATH|O_DIRECTORY))
		f.must(Unlinkat(up, name, true))
		f.must(Close(up))
	}
}

// longPaths tries a path by the system's own calls. What wine makes then it cannot remove.
func longPaths(name string, levels int) bool {
	probe, err := os.MkdirTemp("", "long")
	if err != nil {
		return false
	}
	defer func() { _ = os.RemoveAll(probe) }()
	path := `\\?\` + probe + strings.Repeat(`\`+name, levels)
	return os.MkdirAll(path, 0o755) == nil && os.WriteFile(path+`\file`, nil, 0o644) == nil
}

func TestReadAndWrite(t *testing.T) {
	f := newFolder(t)
	fd := f.open("a", O_RDWR|O_CREAT)
	if n, err := Pwrite(fd, []byte("hello"), 3); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	buf := make([]byte, 20)
	for _, c := range []struct {
		off  int64
		want string
	}{{0, "\x00\x00\x00hello"}, {3, "hello"}, {7, "o"}, {8, ""}, {1 << 40, ""}} {
		if n, err := Pread(fd, buf, c.off); string(buf[:n]) != c.want || err != nil {
			t.Errorf("at %d: %q, %v", c.off, buf[:n], err)
		}
	}
	pieces := [][]byte{make([]byte, 2), {}, make([]byte, 3), make([]byte, 10), make([]byte, 1)}
	if n, err := Preadv(fd, pieces, 2); n != 6 || err != nil || string(pieces[2])+string(pieces[3][:1]) != "ello" {
		t.Errorf("%d %v %q", n, err, pieces)
	}
	for range 2 {
		if n, err := Write(fd, []byte("ab")); n != 2 || err != nil {
			t.Error(n, err)
		}
	}
	if got := f.content(fd); got != "ababello" {
		t.Errorf("%q", got)
	}
	for _, c := range []struct {
		off    int64
		whence int
		want   int64
		err    error
	}{
		{0, 1, 4, nil}, {2, SEEK_SET, 2, nil}, {1, 1, 3, nil}, {-1, SEEK_END, 7, nil}, {-9, SEEK_END, 0, EINVAL}, {-1, SEEK_SET, 0, EINVAL},
		{0, SEEK_DATA, 0, EINVAL}, {0, SEEK_HOLE, 0, EINVAL}, {0, 1, 7, nil},
	} {
		if at, err := Seek(fd, c.off, c.whence); err != c.err || err == nil && at != c.want {
			t.Errorf("seek %d %d: %d, %v", c.off, c.whence, at, err)
		}
	}
	f.must(Ftruncate(fd, 3))
	f.must(Fallocate(fd, 0, 0, 2))
	if st := f.stat(fd); st.Size != 3 {
		t.Error(st.Size)
	}
	f.must(Fallocate(fd, 0, 2, 5))
	if got := f.content(fd); got != "aba\x00\x00\x00\x00" {
		t.Errorf("%q", got)
	}
	f.must(Fsync(fd))
	f.must(Fdatasync(fd))
	f.must(Syncfs(fd))
	trunc := f.open("a", O_WRONLY|O_TRUNC)
	if st := f.stat(trunc); st.Size != 0 {
		t.Error(st.Size)
	}
}

// What a descriptor was not opened for.
func TestDescriptorsAreForWhatTheyWereOpenedFor(t *testing.T) {
	f := newFolder(t)
	f.write("a", "content")
	fds := map[string]int{
		"path": f.open("a", O_PATH), "read": f.open("a", O_RDONLY), "write": f.open("a", O_WRONLY), "dir": f.open(".", O_RDONLY),
		"closed": 99999,
	}
	buf := make([]byte, 100)
	calls := map[string]func(fd int) error{
		"pread":    func(fd int) error { _, err := Pread(fd, buf, 0); return err },
		"pread -1": func(fd int) error { _, err := Pread(fd, buf, -1); return err },
		"preadv":   func(fd int) error { _, err := Preadv(fd, [][]byte{buf}, 0); return err },
		"pwrite":   func(fd int) error { _, err := Pwrite(fd, buf[:0], 0); return err },
		"write":    func(fd int) error { _, err := Write(fd, buf[:0]); return err },
		"truncate": func(fd int) error { return Ftruncate(fd, 7) },
		"allocate": func(fd int) error { return Fallocate(fd, 0, 0, 1) },
		"collapse": func(fd int) error { return Fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 1) },
		"seek":     func(fd int) error { _, err := Seek(fd, 0, SEEK_SET); return err },
		"list":     func(fd int) error { _, err := Getdents(fd, buf); return err },
		"sync":     Fsync,
		"flock":    func(fd int) error { return Flock(fd, LOCK_UN) },
		"read lock": func(fd int) error {
			return SetLock(fd, Lock{Type: F_RDLCK, Start: 1, Length: 1})
		},
		"write lock": func(fd int) error { return SetLock(fd, Lock{Type: F_WRLCK, Start: 5, Length: 1}) },
		"map":        func(fd int) error { _, err := Mmap(fd, 0, 1); return err },
	}
	want := map[string]map[string]error{
		"path": {"pread": EBADF, "pread -1": EBADF, "preadv": EBADF, "pwrite": EBADF, "write": EBADF, "truncate": EINVAL, "allocate": EBADF, "collapse": EBADF,
			"seek": EBADF, "list": EBADF, "sync": EBADF, "flock": EBADF, "read lock": EBADF, "write lock": EBADF, "map": EBADF},
		"read": {"pread -1": EINVAL, "pwrite": EBADF, "write": EBADF, "truncate": EINVAL, "allocate": EBADF, "collapse": EBADF, "list": ENOTDIR, "write lock": EBADF,
			"map": EBADF},
		"write": {"pread": EBADF, "pread -1": EBADF, "preadv": EBADF, "list": EBADF, "collapse": EOPNOTSUPP, "read lock": EBADF, "map": EINVAL},
		"dir": {"pread": EISDIR, "pread -1": EISDIR, "preadv": EISDIR, "pwrite": EBADF, "write": EBADF, "truncate": EINVAL, "allocate": EBADF, "collapse": EBADF,
			"flock": EOPNOTSUPP, "read lock": EOPNOTSUPP, "write lock": EBADF, "map": EBADF},
	}
	for kind, fd := range fds {
		for call, do := range calls {
			w := want[kind][call]
			if kind == "closed" {
				w = EBADF
			}
			if err := do(fd); err != w {
				t.Errorf("%s of %q: %v, not %v", call, kind, err, w)
			}
		}
	}
}

// Two descriptions append at once: nothing is torn or lost.
func TestAppendIsAtomic(t *testing.T) {
	f := newFolder(t)
	const writers, lines = 4, 100
	var group sync.WaitGroup
	for w := range writers {
		fd := f.open("log", O_WRONLY|O_CREAT|O_APPEND)
		group.Go(func() {
			for i := range lines {
				line := fmt.Appendf(nil, "%d %04d\n", w, i)
				if n, err := Write(fd, line); n != len(line) || err != nil {
					t.Error(n, err)
				}
			}
		})
	}
	group.Wait()
	got := strings.Split(strings.TrimSuffix(f.read("log"), "\n"), "\n")
	slices.Sort(got)
	if got = slices.Compact(got); len(got) != writers*lines {
		t.Errorf("%d lines, not %d", len(got), writers*lines)
	}
	fd := f.open("log", O_RDWR)
	f.must(Setfl(fd, O_APPEND))
	f.ok(Pwrite(fd, []byte("end"), 0))
	if at, err := Seek(fd, 0, 1); at != 0 || err != nil {
		t.Error(at, err)
	}
	f.ok(Write(fd, []byte("!")))
	if at, err := Seek(fd, 0, 1); at != writers*lines*7+4 || err != nil {
		t.Error(at, err)
	}
	f.must(Setfl(fd, 0))
	f.ok(Pwrite(fd, []byte("X"), 0))
	if c := f.read("log"); c[0] != 'X' || !strings.HasSuffix(c, "end!") {
		t.Errorf("%q ... %q", c[:5], c[len(c)-5:])
	}
}

func TestDupIsTheSameOpenFile(t *testing.T) {
	f := newFolder(t)
	fd := f.open("a", O_RDWR|O_CREAT)
	two := f.ok(Dup(fd))
	f.ok(Write(fd, []byte("abc")))
	f.ok(Write(two, []byte("def")))
	f.must(Close(fd))
	if got := f.content(two); got != "abcdef" {
		t.Errorf("%q", got)
	}
	f.must(Close(two))
	f.refused(EBADF)(Dup(two))
}

func TestListing(t *testing.T) {
	f := newFolder(t)
	if got := f.names(f.fd, 1000); !slices.Equal(got, []string{".", ".."}) {
		t.Errorf("an empty directory: %q", got)
	}
	want := []string{".", "..", "dir"}
	f.mkdir("dir")
	for i := range 300 {
		name := fmt.Sprintf("%03d%s", i, strings.Repeat("x", i%200))
		f.write(name, "")
		want = append(want, name)
	}
	slices.Sort(want)
	if got := f.names(f.fd, 1000); len(got) != 0 {
		t.Errorf("a listing that had ended has %q", got)
	}
	for _, size := range []int{300, 4096, 1 << 20} {
		f.ok(0, func() error { _, err := Seek(f.fd, 0, SEEK_SET); return err }())
		got := f.entries(f.fd, size)
		if names := f.names(f.open(".", O_RDONLY), size); !slices.Equal(names, want) {
			t.Errorf("with %d bytes: %d names, not %d", size, len(names), len(want))
		}
		for name, kind := range map[string]byte{"dir": DT_DIR, "000": DT_REG, ".": DT_DIR, "..": DT_DIR} {
			if e := got[name]; e.kind != kind || name != ".." && e.number != f.statAt(name).Ino {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
	fd := f.open(".", O_RDONLY)
	f.refused(EINVAL)(Getdents(fd, make([]byte, 10)))
	f.ok(Getdents(fd, make([]byte, 500)))
	f.must(os.Remove(filepath.Join(f.path, "dir"))) // a snapshot has it
	if at, err := Seek(fd, 2, SEEK_SET); at != 2 || err != nil {
		t.Error(at, err)
	}
	rest := f.names(fd, 1000)
	if len(rest) != len(want)-2 || slices.Contains(rest, ".") || !slices.Contains(rest, "dir") {
		t.Errorf("from the third on: %d names", len(rest))
	}
}

func TestNamesBeyondASCII(t *testing.T) {
	f := newFolder(t)
	names := []string{".", "..", "Ärger", "日本", "\U0001f600"}
	for _, name := range names[2:] {
		fd, err := Openat(f.fd, name, O_WRONLY|O_CREAT|O_EXCL, 0o644)
		if err == ENOENT {
			t.Skip("no name beyond ASCII can be given here (wine without a locale of UTF-8)")
		}
		f.must(err)
		f.must(Close(fd))
	}
	if got := f.names(f.fd, 1000); !slices.Equal(got, names) {
		t.Errorf("%q", got)
	}
	if f.statAt("ärger").Ino != f.statAt("Ärger").Ino {
		t.Error("case counts")
	}
}

func TestOpenBeneath(t *testing.T) {
	f := newFolder(t)
	f.mkdir("a", `a\b`)
	f.write(`a\b\file`, "x")
	for path, want := range map[string]error{
		".": nil, "a": nil, "a/b": nil, "a/b/file": nil, "A/B/FILE": nil,
		"a/file": ENOENT, "a/b/file/x": ENOTDIR, "a/x/y": ENOENT, "..": EINVAL, "a/../a": EINVAL, "a//b": ENOENT, `a\b`: EINVAL, "a/con/b": EINVAL, "": ENOENT,
	} {
		fd, err := OpenBeneath(f.fd, path, O_RDONLY)
		if err != want {
			t.Errorf("%q: %v, not %v", path, err, want)
		}
		if err == nil {
			f.must(Close(fd))
		}
	}
}

func TestParentAndPath(t *testing.T) {
	f := newFolder(t)
	f.mkdir("a", `a\b`)
	a, b := f.open("a", O_PATH), f.ok(OpenBeneath(f.fd, "a/b", O_PATH))
	up := f.ok(Parent(b))
	if f.stat(up) != f.stat(a) {
		t.Error("the parent is another directory")
	}
	if path, err := PathOf(b); err != nil || filepath.Base(path) != "b" || !strings.EqualFold(path, filepath.Join(f.path, `a\b`)) {
		t.Errorf("%q, %v; in %q", path, err, f.path)
	}
	f.must(Renameat(a, "b", f.fd, "c", 0))
	again := f.ok(Parent(b))
	if f.stat(again).Ino != f.stat(f.fd).Ino {
		t.Error("after a rename, the parent is another directory")
	}
	root := f.ok(Open(filepath.VolumeName(f.path)+`\`, O_PATH, 0))
	top := f.ok(Parent(root))
	if f.stat(root) != f.stat(top) {
		t.Error("a root has another parent")
	}
	for _, fd := range []int{b, up, again, root, top} {
		f.must(Close(fd))
	}
}
