package files

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// folder is an open working folder in a directory of its own, with files whose
// names end in "/" for directories, or hold " -> " for symlinks.
func folder(t testing.TB, hidden []string, names ...string) (*Folder, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "work")
	check(t, os.Mkdir(dir, 0o755))
	for _, n := range names {
		n, target, link := strings.Cut(n, " -> ")
		n, text, content := strings.Cut(n, "=")
		path := filepath.Join(dir, n)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case link:
			check(t, os.Symlink(target, path))
		case strings.HasSuffix(n, "/"):
			check(t, os.MkdirAll(path, 0o755))
		case content:
			check(t, os.WriteFile(path, []byte(text), 0o644))
		default:
			check(t, os.WriteFile(path, []byte(n), 0o644))
		}
	}
	return open(t, dir, hidden), dir
}

func open(t testing.TB, dir string, hidden []string) *Folder {
	t.Helper()
	root, err := hostfs.OpenRoot(dir)
	check(t, err)
	f, err := New(Options{Root: root, Hidden: hidden})
	check(t, err)
	t.Cleanup(func() { f.Close(); root.Close() })
	return f
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	f, dir := folder(t, nil, "a/text=0123456789", "empty=", "d/", "in -> a/text", "abs -> "+"/", "up/link -> ../a/../a/./text", "dirlink -> a", "loop -> loop", "a\xff")
	check(t, os.Remove(filepath.Join(dir, "abs")))
	check(t, os.Symlink(filepath.Join(dir, "a", "text"), filepath.Join(dir, "abs")))
	check(t, os.Chmod(filepath.Join(dir, "a/text"), 0o640))
	for _, c := range []struct {
		r    ReadRequest
		want string
		more bool
		err  error
	}{
		{r: ReadRequest{Path: "a/text"}, want: "0123456789"},
		{r: ReadRequest{Path: dir + "/a/text"}, want: "0123456789"},
		{r: ReadRequest{Path: "a/text", Offset: 3}, want: "3456789"},
		{r: ReadRequest{Path: "a/text", Offset: 3, Limit: 2}, want: "34", more: true},
		{r: ReadRequest{Path: "a/text", Offset: 8, Limit: 2}, want: "89"},
		{r: ReadRequest{Path: "a/text", Limit: 5, MaxBytes: 2}, want: "01", more: true},
		{r: ReadRequest{Path: "a/text", Offset: 10}},
		{r: ReadRequest{Path: "a/text", Offset: 1 << 60}},
		{r: ReadRequest{Path: "empty"}},
		{r: ReadRequest{Path: "in"}, want: "0123456789"},
		{r: ReadRequest{Path: "abs"}, want: "0123456789"},
		{r: ReadRequest{Path: "up/link"}, want: "0123456789"},
		{r: ReadRequest{Path: "dirlink/text"}, want: "0123456789"},
		{r: ReadRequest{Path: `"a\xff"`}, want: "a\xff"},
		{r: ReadRequest{Path: "a/text", Offset: -1}, err: ErrRequest},
		{r: ReadRequest{Path: "a/text", Limit: -1}, err: ErrRequest},
		{r: ReadRequest{Path: "none"}, err: fs.ErrNotExist},
		{r: ReadRequest{Path: "a/text/none"}, err: syscall.ENOTDIR},
		{r: ReadRequest{Path: "d"}, err: ErrNotRegular},
		{r: ReadRequest{Path: ""}, err: ErrNotRegular},
		{r: ReadRequest{Path: "loop"}, err: syscall.ELOOP},
		{r: ReadRequest{Path: "../work/a/text"}, err: ErrOutside},
		{r: ReadRequest{Path: "a\x00"}, err: ErrPath},
	} {
		got, err := f.Read(context.Background(), c.r)
		if string(got.Data) != c.want || got.Truncated != c.more || !errors.Is(err, c.err) {
			t.Errorf("%+v: %q, truncated %v, %v", c.r, got.Data, got.Truncated, err)
		}
	}
	got, err := f.Read(context.Background(), ReadRequest{Path: "in"})
	check(t, err)
	if got.Path != "in" || got.Size != 10 || got.Mode != 0o640 || time.Since(got.ModTime) > time.Hour {
		t.Errorf("%+v", got)
	}
}

// TestSA10 and TestSA11: nothing outside of the folder can be named, and no
// symlink leads there.
func TestSA10(t *testing.T) {
	f, dir := folder(t, nil, "a/b", "etc -> /etc", "up -> ..", "a/up -> ../../outside", "deep -> a/../../outside", "chain -> up", "beside -> ../work2/x")
	check(t, os.WriteFile(filepath.Join(dir, "../outside"), []byte("secret"), 0o644))
	for _, p := range []string{"../../etc/passwd", "/etc/passwd", "../outside", "a/../../outside", dir + "/../outside", "etc/passwd", "up/outside", "a/up", "deep", "chain/outside", "beside", "/proc/self/root/etc/passwd"} {
		got, err := f.Read(context.Background(), ReadRequest{Path: p})
		if !errors.Is(err, ErrOutside) || got.Data != nil {
			t.Errorf("read %s: %q, %v", p, got.Data, err)
		}
	}
}

func TestSA11(t *testing.T) {
	f, dir := folder(t, nil, "a/b", "etc -> /etc", "up -> ..")
	for _, p := range []string{"/", "/etc", "..", dir + "/..", dir + "2", "etc", "up", "up/work", "/proc/self/cwd"} {
		if got, err := f.List(context.Background(), ListRequest{Path: p}); !errors.Is(err, ErrOutside) || got.Entries != nil {
			t.Errorf("list %s: %+v, %v", p, got, err)
		}
	}
}

// TestOtherName: an absolute path may name the folder as its user does.
func TestOtherName(t *testing.T) {
	f, dir := folder(t, nil, "a/b")
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(filepath.Dir(dir), link))
	for p, want := range map[string]string{link + "/work/a/b": "a/b", link + "/work": ".", link + "/./work//a/../a/": "a"} {
		if got, err := f.Rel(p); got != want || err != nil {
			t.Errorf("%s: %q, %v", p, got, err)
		}
	}
	for _, p := range []string{link, link + "/work2", link + "/work/../x"} {
		if got, err := f.Rel(p); !errors.Is(err, ErrOutside) {
			t.Errorf("%s: %q, %v", p, got, err)
		}
	}
}

// TestSpecialFiles: what is not a regular file is not opened, and nobody waits.
func TestSpecialFiles(t *testing.T) {
	f, dir := folder(t, nil, "f=needle", "null -> /dev/null")
	fifo := filepath.Join(dir, "fifo")
	check(t, unix.Mkfifo(fifo, 0o644))
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	check(t, err)
	defer l.Close()
	for p, want := range map[string]error{"fifo": ErrNotRegular, "socket": ErrNotRegular, "null": ErrOutside} {
		if _, err := f.Read(context.Background(), ReadRequest{Path: p}); !errors.Is(err, want) {
			t.Errorf("%s: %v", p, err)
		}
	}
	got, err := f.List(context.Background(), ListRequest{})
	check(t, err)
	if s := summary(got); s != "f:file fifo:other null:symlink->/dev/null socket:other" {
		t.Error(s)
	}
	// A writer that waits for a reader still waits.
	if fd, err := unix.Open(fifo, unix.O_WRONLY|unix.O_NONBLOCK, 0); err != unix.ENXIO {
		t.Errorf("somebody has opened the FIFO: %d, %v", fd, err)
	}
}

func summary(l Listing) string {
	var out []string
	for _, e := range l.Entries {
		s := e.Path + ":" + e.Type
		if e.Target != "" {
			s += "->" + e.Target
		}
		if e.Escaped {
			s += "!"
		}
		out = append(out, s)
	}
	if l.Truncated {
		out = append(out, "...")
	}
	return strings.Join(out, " ")
}

func TestList(t *testing.T) {
	f, _ := folder(t, nil, "b", "a/x", "a/y/z", "a-b", "l -> a", ".git/config", "n\xff", ".hid")
	for _, c := range []struct {
		r    ListRequest
		want string
	}{
		{ListRequest{}, `.git:directory .hid:file a:directory a-b:file b:file l:symlink->a "n\xff":file!`},
		{ListRequest{Depth: 2}, `.git:directory .hid:file a:directory a/x:file a/y:directory a-b:file b:file l:symlink->a "n\xff":file!`},
		{ListRequest{Path: "a", Depth: 9}, "a/x:file a/y:directory a/y/z:file"},
		{ListRequest{Path: "l"}, "l/x:file l/y:directory"},
		{ListRequest{Path: ".git"}, ".git/config:file"},
		{ListRequest{Depth: 3, Limit: 5}, ".git:directory .hid:file a:directory a/x:file a/y:directory ..."},
		{ListRequest{Limit: 7}, `.git:directory .hid:file a:directory a-b:file b:file l:symlink->a "n\xff":file!`},
	} {
		got, err := f.List(context.Background(), c.r)
		if s := summary(got); s != c.want || err != nil {
			t.Errorf("%+v: %s, %v", c.r, s, err)
		}
	}
	for p, want := range map[string]error{"b": syscall.ENOTDIR, "none": fs.ErrNotExist} {
		if _, err := f.List(context.Background(), ListRequest{Path: p}); !errors.Is(err, want) {
			t.Errorf("%s: %v", p, err)
		}
	}
	for _, r := range []ListRequest{{Depth: -1}, {Limit: -1}} {
		if _, err := f.List(context.Background(), r); !errors.Is(err, ErrRequest) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestHidden: what is hidden from commands is hidden here, wherever it is moved
// to and whatever leads there.
func TestHidden(t *testing.T) {
	f, dir := folder(t, []string{"a/dir", "a/file", "a/missing"},
		"a/dir/key", "a/file", "b/open", "link -> a/file", "dirlink -> a/dir", "into -> a/dir/key", "round -> a/dir/../open", "a/open")
	check(t, os.Link(filepath.Join(dir, "a/file"), filepath.Join(dir, "b/hard")))
	denied := func(paths ...string) {
		t.Helper()
		for _, p := range paths {
			if got, err := f.Read(context.Background(), ReadRequest{Path: p}); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("read %s: %q, %v", p, got.Data, err)
			}
			if got, err := f.List(context.Background(), ListRequest{Path: p}); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("list %s: %+v, %v", p, got, err)
			}
		}
	}
	shows := func(want string) {
		t.Helper()
		got, err := f.List(context.Background(), ListRequest{Depth: 5})
		check(t, err)
		if s := summary(got); s != want {
			t.Error(s)
		}
	}
	denied("a/dir", "a/dir/key", "a/file", "a/missing", "link", "dirlink", "into", "b/hard", "round")
	const links = "dirlink:symlink->a/dir into:symlink->a/dir/key link:symlink->a/file round:symlink->a/dir/../open"
	shows("a:directory a/open:file b:directory b/open:file " + links)
	check(t, os.WriteFile(filepath.Join(dir, "a/missing"), nil, 0o644))
	check(t, os.Rename(filepath.Join(dir, "a/dir"), filepath.Join(dir, "b/dir")))
	check(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "c")))
	denied("b/dir", "b/dir/key", "c/file", "c/missing", "c/dir")
	shows("b:directory b/open:file c:directory c/open:file " + links)
}

// TestSwappedSymlink: whoever swaps directories for symlinks never leads a read
// out of the folder.
func TestSwappedSymlink(t *testing.T) {
	f, dir := folder(t, nil, "a/d/file=inside", "spare/file=inside", "x/")
	outside := filepath.Join(filepath.Dir(dir), "outside")
	check(t, os.MkdirAll(outside, 0o755))
	check(t, os.WriteFile(filepath.Join(outside, "file"), []byte("outside"), 0o644))
	check(t, os.Symlink("../../outside", filepath.Join(dir, "x/link")))
	stop := make(chan struct{})
	swapped := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				swapped <- n
				return
			default:
			}
			err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "a/d"), unix.AT_FDCWD, filepath.Join(dir, "x/link"), unix.RENAME_EXCHANGE)
			if err != nil {
				panic(err)
			}
			n++
		}
	}()
	read, refused := 0, 0
	tries := require.Tries(t, 3000)
	for i := 0; i < 200_000 && (i < tries || read == 0 || refused == 0); i++ {
		c, err := f.Read(context.Background(), ReadRequest{Path: "a/d/file"})
		switch {
		case err == nil && string(c.Data) == "inside":
			read++
		case err == nil:
			t.Fatalf("read %q", c.Data)
		case errors.Is(err, ErrOutside):
			refused++
		}
		l, err := f.List(context.Background(), ListRequest{Path: "a", Depth: 3})
		if err == nil && len(l.Entries) > 2 {
			t.Fatal(summary(l))
		}
	}
	close(stop)
	t.Logf("%d swaps, %d reads, %d refusals", <-swapped, read, refused)
	if read == 0 || refused == 0 {
		t.Error("the race was never met")
	}
}

// TestDeep: a very deep tree costs few descriptors.
func TestDeep(t *testing.T) {
	f, base := folder(t, nil, "top")
	const levels = 400
	fd, err := unix.Open(base, unix.O_PATH, 0)
	check(t, err)
	name := strings.Repeat("d", 100)
	for range levels {
		check(t, unix.Mkdirat(fd, name, 0o755))
		for _, n := range []string{"before", "z-after"} {
			check(t, unix.Mknodat(fd, n, unix.S_IFREG|0o644, 0))
		}
		sub, err := unix.Openat(fd, name, unix.O_PATH, 0)
		check(t, err)
		unix.Close(fd)
		fd = sub
	}
	unix.Close(fd)
	most, seen := 0, 0
	w := &walker{f: f, visit: func(*dir, string, uint8) (bool, error) {
		if seen++; seen%100 == 0 {
			fds, err := os.ReadDir("/proc/self/fd")
			check(t, err)
			most = max(most, len(fds))
		}
		return true, nil
	}}
	check(t, w.walk(context.Background(), "."))
	if seen != 3*levels+1 || most > maxOpenDirs+20 {
		t.Errorf("%d entries seen, %d descriptors", seen, most)
	}
	got, err := f.List(context.Background(), ListRequest{Depth: 1000})
	check(t, err)
	if want := 3*levels + 1; len(got.Entries) != want || got.Truncated {
		t.Errorf("%d entries, want %d", len(got.Entries), want)
	}
	deep := strings.Repeat(name+"/", levels)
	if _, err := f.List(context.Background(), ListRequest{Path: deep}); err != nil {
		t.Error(err)
	}
}

func TestClosed(t *testing.T) {
	f, _ := folder(t, nil, "a")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.Read(ctx, ReadRequest{Path: "a"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	f.Close()
	f.Close()
	if _, err := f.Read(context.Background(), ReadRequest{Path: "a"}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
