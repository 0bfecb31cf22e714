package paths

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// call is one request that is served.
type call struct {
	t     *testing.T
	to    *io.PipeWriter
	in    *Reader
	ended chan error
}

func begin(t *testing.T, r Request, o Options) *call {
	t.Helper()
	in, to := io.Pipe()
	from, out := io.Pipe()
	c := &call{t: t, to: to, in: NewReader(from), ended: make(chan error, 1)}
	go func() {
		err := Serve(in, out, o)
		_ = in.CloseWithError(io.ErrClosedPipe)
		_ = out.Close()
		c.ended <- err
	}()
	t.Cleanup(func() {
		_ = to.Close()
		go func() { _, _ = io.Copy(io.Discard, from) }()
		<-c.ended
	})
	if err := WriteJSON(to, FrameRequest, r); err != nil {
		t.Fatal(err)
	}
	return c
}

// got is what came of a request.
type got struct {
	ready   *Reply
	data    []byte
	entries []Info
	done    Reply
}

// finish lets it be done; content is what a write writes.
func (c *call) finish(content string) (g got) {
	c.t.Helper()
	for {
		kind, payload, err := c.in.Next()
		if err != nil {
			c.t.Fatal(err)
		}
		switch kind {
		case FrameReady:
			r, err := Parse[Reply](payload)
			if err != nil {
				c.t.Fatal(err)
			}
			g.ready = &r
			go func() { // it may want none of it
				if Write(c.to, FrameGo, nil) == nil && content != "" {
					_, _ = Copy(c.to, strings.NewReader(content), func() error { return nil })
					_ = Write(c.to, FrameEnd, nil)
				}
			}()
		case FrameAlive: // it takes long
		case FrameData:
			g.data = append(g.data, payload...)
		case FrameList:
			list, err := Parse[[]Info](payload)
			if err != nil {
				c.t.Fatal(err)
			}
			g.entries = append(g.entries, list...)
		case FrameDone:
			if g.done, err = Parse[Reply](payload); err != nil {
				c.t.Fatal(err)
			}
			return g
		default:
			c.t.Fatalf("a frame %q", kind)
		}
	}
}

func do(t *testing.T, r Request, content string) got {
	t.Helper()
	return begin(t, r, Options{Umask: 0o027}).finish(content)
}

func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.MkdirAll(filepath.Join(dir, "a/b"), 0o755), os.WriteFile(filepath.Join(dir, "a/file"), []byte("content"), 0o640),
		os.WriteFile(filepath.Join(dir, "a/b/deep"), nil, 0o600), os.Symlink("file", filepath.Join(dir, "a/link")), os.Symlink("nowhere", filepath.Join(dir, "a/dangling")),
		os.Symlink("a", filepath.Join(dir, "dirlink")), os.Symlink("loop", filepath.Join(dir, "loop")), unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
		os.Chtimes(filepath.Join(dir, "a/file"), time.Time{}, time.Unix(1000, 5)))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestStat(t *testing.T) {
	dir := tree(t)
	for p, want := range map[string]Info{
		"a/file":     {Type: "file", Size: 7, Mode: 0o640, MTimeNS: 1000*1e9 + 5},
		"a/b":        {Type: "directory", Mode: 0o755},
		"a/link":     {Type: "symlink", Target: "file", TargetType: "file"},
		"a/dangling": {Type: "symlink", Target: "nowhere"},
		"dirlink":    {Type: "symlink", Target: "a", TargetType: "directory"},
		"fifo":       {Type: "other", Mode: 0o600},
	} {
		r := do(t, Request{Op: OpStat, Path: Text(filepath.Join(dir, p))}, "").done
		i := r.Info
		if i == nil || i.Type != want.Type || i.Target != want.Target || i.TargetType != want.TargetType || i.UID != ownerOf(t, dir) || i.Owner == "" || i.Group == "" || r.Real != Text(filepath.Join(dir, p)) {
			t.Errorf("%s: %+v, %+v", p, r, i)
		}
		if want.Mode != 0 && i.Mode != want.Mode || want.MTimeNS != 0 && (i.MTimeNS != want.MTimeNS || i.Size != want.Size) {
			t.Errorf("%s: %+v", p, i)
		}
	}
	for p, want := range map[string]string{"none": "ENOENT", "a/file/x": "ENOTDIR", "loop/x": "ELOOP", "a/dangling/x": "ENOENT"} {
		if r := do(t, Request{Op: OpStat, Path: Text(filepath.Join(dir, p))}, "").done; r.Errno != want {
			t.Errorf("%s: %+v", p, r)
		}
	}
	if r := do(t, Request{Op: "other", Path: "/"}, "").done; r.Errno != "ENOSYS" {
		t.Errorf("%+v", r)
	}
}

// ownerOf is whose a file is.
func ownerOf(t *testing.T, p string) uint32 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(p, &st); err != nil {
		t.Fatal(err)
	}
	return st.Uid
}

func TestList(t *testing.T) {
	dir := tree(t)
	names := func(g got) (list []string) {
		for _, e := range g.entries {
			list = append(list, string(e.Path))
		}
		return list
	}
	for _, c := range []struct {
		path         string
		depth, limit int
		want         string
		cut          bool
	}{
		{"a", 1, 10, "b dangling file link", false}, {"a", 2, 10, "b b/deep dangling file link", false}, {"dirlink", 1, 10, "b dangling file link", false},
		{"a", 2, 2, "b b/deep", true}, {"a", 1, 4, "b dangling file link", false}, {"a/b", 9, 9, "deep", false},
	} {
		g := do(t, Request{Op: OpList, Path: Text(filepath.Join(dir, c.path)), Depth: c.depth, Limit: c.limit}, "")
		if got := strings.Join(names(g), " "); got != c.want || g.done.Truncated != c.cut {
			t.Errorf("%+v: %q, %+v", c, got, g.done)
		}
	}
	if r := do(t, Request{Op: OpList, Path: Text(filepath.Join(dir, "a/file")), Limit: 1}, "").done; r.Errno != "ENOTDIR" {
		t.Errorf("%+v", r)
	}
	many := filepath.Join(dir, "many")
	if err := os.Mkdir(many, 0o755); err != nil {
		t.Fatal(err)
	}
	want := []string{"\xff bytes"}
	for i := range 500 {
		want = append(want, fmt.Sprintf("%03d%s", i, strings.Repeat("\x01", 200)))
	}
	for _, name := range want {
		if err := os.WriteFile(filepath.Join(many, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	if got := names(do(t, Request{Op: OpList, Path: Text(many), Limit: 1000}, "")); !slices.Equal(got, want) {
		t.Errorf("%d names", len(got))
	}
}

func TestRead(t *testing.T) {
	dir := tree(t)
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := os.WriteFile(filepath.Join(dir, "big"), big, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path        string
		offset, len int64
		want        string
	}{
		{"a/file", 0, 0, "content"}, {"a/link", 2, 3, "nte"}, {"a/file", 99, 0, ""}, {"big", 0, 0, string(big)}, {"big", 3, 1 << 19, string(big[3 : 3+1<<19])},
	} {
		g := do(t, Request{Op: OpRead, Path: Text(filepath.Join(dir, c.path)), Offset: c.offset, Length: c.len}, "")
		if string(g.data) != c.want || g.done.Errno != "" || g.ready == nil || g.ready.Info == nil || g.ready.Info.Type != "file" {
			t.Errorf("%s from %d: %d bytes, %+v", c.path, c.offset, len(g.data), g.done)
		}
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for p, want := range map[string]string{"a": "EISDIR", "none": "ENOENT", "fifo": "EINVAL", "socket": "EINVAL", "loop": "ELOOP"} {
		if r := do(t, Request{Op: OpRead, Path: Text(filepath.Join(dir, p))}, "").done; r.Errno != want || r.Irregular != (want == "EINVAL") {
			t.Errorf("%s: %+v", p, r)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := tree(t)
	for _, c := range []struct {
		path, real, content string
		mode                uint32
		existed             bool
		want                fs.FileMode
	}{
		{"new", "new", "x", 0, false, 0o640}, {"new dirs/below/it", "new dirs/below/it", "y", 0o777, false, 0o750}, {"a/file", "a/file", "other", 0o600, true, 0o640},
		{"a/link", "a/file", "by a link", 0, true, 0o640}, {"a/dangling", "a/nowhere", "made", 0, false, 0o640}, {"dirlink/z", "a/z", strings.Repeat("big", 1<<20), 0, false, 0o640},
	} {
		g := do(t, Request{Op: OpWrite, Path: Text(filepath.Join(dir, c.path)), Mode: c.mode}, c.content)
		real := filepath.Join(dir, c.real)
		b, err := os.ReadFile(real)
		st, serr := os.Stat(real)
		if err != nil || serr != nil || string(b) != c.content || st.Mode() != c.want || g.done.Errno != "" || g.done.Existed != c.existed || g.ready.Real != Text(real) || g.done.Info.Size != int64(len(c.content)) {
			t.Errorf("%s: %d bytes, %v, %v, %+v", c.path, len(b), err, st, g.done)
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "new dirs")); err != nil || st.Mode().Perm() != 0o750 {
		t.Errorf("%v, %v", st, err)
	}
	if st, err := os.Lstat(filepath.Join(dir, "a/link")); err != nil || st.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the symlink is gone: %v", err)
	}
	for p, want := range map[string]string{"a": "EISDIR", "fifo": "EINVAL", "a/file/x": "ENOTDIR", "loop": "ELOOP"} {
		if g := do(t, Request{Op: OpWrite, Path: Text(filepath.Join(dir, p))}, "x"); g.done.Errno != want || g.ready != nil {
			t.Errorf("%s: %+v", p, g.done)
		}
	}
	if g := do(t, Request{Op: OpWrite, Path: Text(filepath.Join(dir, "new")), New: true}, "x"); g.done.Errno != "EEXIST" {
		t.Errorf("%+v", g.done)
	}
	noTemporary(t, dir)
}

// noTemporary fails if something is left that was to get another name.
func noTemporary(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".sandbox-") {
			t.Errorf("%s is left", p)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Who goes in the middle of a write leaves what was there, and nothing else; and before it is allowed, nothing at all.
func TestWriteIsCut(t *testing.T) {
	dir := tree(t)
	for _, after := range []int{0, 1, 2} {
		c := begin(t, Request{Op: OpWrite, Path: Text(filepath.Join(dir, "a/file"))}, Options{Umask: -1})
		kind, _, err := c.in.Next()
		if err != nil || kind != FrameReady {
			t.Fatalf("%q, %v", kind, err)
		}
		for i := range after {
			if err := Write(c.to, []byte{FrameGo, FrameData}[i], []byte("half")); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.to.Close(); err != nil {
			t.Fatal(err)
		}
		if kind, payload, err := c.in.Next(); err != nil || kind != FrameDone || !strings.Contains(string(payload), "EIO") {
			t.Errorf("%q %s, %v", kind, payload, err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "a/file")); err != nil || string(b) != "content" {
			t.Errorf("%q, %v", b, err)
		}
		noTemporary(t, dir)
	}
}

func TestMkdir(t *testing.T) {
	dir := tree(t)
	for _, c := range []struct {
		path    string
		existed bool
		errno   string
	}{{"a/new/er", false, ""}, {"a/new/er", true, ""}, {"dirlink/b", true, ""}, {"a/file", false, "EEXIST"}, {"a/file/x", false, "ENOTDIR"}} {
		r := do(t, Request{Op: OpMkdir, Path: Text(filepath.Join(dir, c.path)), Mode: 0o770}, "").done
		if r.Existed != c.existed || r.Errno != c.errno {
			t.Errorf("%+v: %+v", c, r)
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "a/new/er")); err != nil || st.Mode().Perm() != 0o750 {
		t.Errorf("%v, %v", st, err)
	}
}

func TestRemove(t *testing.T) {
	dir := tree(t)
	for _, c := range []struct {
		path      string
		recursive bool
		errno     string
	}{
		{"a/link", false, ""}, {"a/file", false, ""}, {"a", false, "ENOTEMPTY"}, {"a/b/deep", true, ""}, {"a/b", false, ""}, {"dirlink", true, ""}, {"a", true, ""}, {"a", true, "ENOENT"},
	} {
		p := filepath.Join(dir, c.path)
		if r := do(t, Request{Op: OpRemove, Path: Text(p), Recursive: c.recursive}, "").done; r.Errno != c.errno {
			t.Errorf("%+v: %+v", c, r)
		}
		if _, err := os.Lstat(p); (err == nil) != (c.errno == "ENOTEMPTY") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestMove(t *testing.T) {
	dir := tree(t)
	for _, c := range []struct {
		from, to string
		fresh    bool
		errno    string
	}{
		{"a/file", "a/renamed", false, ""}, {"a/renamed", "new/dirs/x", false, ""}, {"new/dirs/x", "fifo", true, "EEXIST"}, {"new/dirs/x", "a/link", false, ""}, {"a/b", "new", false, "ENOTEMPTY"},
		{"a/link", "new", false, "EISDIR"}, {"a", "fifo", false, "ENOTDIR"}, {"a", "moved", false, ""}, {"none", "x", false, "ENOENT"}, {"moved", "moved/b/x", false, "EINVAL"},
	} {
		r := do(t, Request{Op: OpMove, Path: Text(filepath.Join(dir, c.from)), To: Text(filepath.Join(dir, c.to)), New: c.fresh}, "").done
		if r.Errno != c.errno {
			t.Errorf("%+v: %+v", c, r)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "moved/link")); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
}

// What cannot be renamed is copied, with modes, times and symlinks, and then removed. What cannot be copied is left.
func TestCarry(t *testing.T) {
	dir := tree(t)
	s := &server{o: Options{Umask: -1}}
	s.ctx, s.gone = t.Context(), func() {}
	before, err := os.Stat(filepath.Join(dir, "a/file"))
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Lstat(filepath.Join(dir, "a"))
	if err == nil {
		err = s.carry(filepath.Join(dir, "a"), filepath.Join(dir, "carried"), st)
	}
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(filepath.Join(dir, "carried/file"))
	if err != nil || after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("%v, %v", after, err)
	}
	if target, err := os.Readlink(filepath.Join(dir, "carried/dangling")); err != nil || target != "nowhere" {
		t.Errorf("%q, %v", target, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	noTemporary(t, dir)
	if err := os.Rename(filepath.Join(dir, "fifo"), filepath.Join(dir, "carried/b/fifo")); err != nil {
		t.Fatal(err)
	}
	st, err = os.Lstat(filepath.Join(dir, "carried"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.carry(filepath.Join(dir, "carried"), filepath.Join(dir, "again"), st); !errors.Is(err, unix.EINVAL) {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "again")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	noTemporary(t, dir)
}

// Attributes and the names of one file are carried along: what was one file is one file afterwards, and another name outside of the tree keeps what it had.
func TestCarryAttributes(t *testing.T) {
	dir := tree(t)
	at := func(p string) string { return filepath.Join(dir, p) }
	err := errors.Join(os.Link(at("a/file"), at("a/b/same")), os.Link(at("a/file"), at("outside")), os.Link(at("a/link"), at("a/b/samelink")), os.Chmod(at("a/b"), 0o500), os.Chmod(at("a/file"), 0o440))
	for _, p := range []string{"a/file", "a/b", "a/b/deep", "a"} { // root may, whatever the mode is
		mode, serr := os.Stat(at(p))
		if err = errors.Join(err, serr); err != nil {
			t.Fatal(err)
		}
		err = errors.Join(err, os.Chmod(at(p), 0o700), unix.Lsetxattr(at(p), "user.test", []byte("of "+p), 0), unix.Lsetxattr(at(p), "user.empty", nil, 0), os.Chmod(at(p), mode.Mode()))
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("the file system of the temporary directory has no extended attributes: set TMPDIR to one that has them, as ext4")
	}
	if err != nil {
		t.Fatal(err)
	}
	access := []byte{2, 0, 0, 0, 1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 4, 0, 0x39, 0x30, 0, 0, 4, 0, 5, 0, 0xff, 0xff, 0xff, 0xff, 16, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, 32, 0, 5, 0, 0xff, 0xff, 0xff, 0xff}
	listed := unix.Lsetxattr(at("a/b/deep"), "system.posix_acl_access", access, 0) == nil // user 12345 may read
	st, err := os.Lstat(at("a"))
	if err != nil {
		t.Fatal(err)
	}
	deep, err := os.Stat(at("a/b/deep"))
	if err != nil {
		t.Fatal(err)
	}
	s := &server{o: Options{Umask: -1}}
	s.ctx, s.gone = t.Context(), func() {}
	if os.Getuid() != 0 {
		if err := os.Chmod(at("a/b"), 0o700); err != nil { // or what is in it could not be removed
			t.Fatal(err)
		}
	}
	if err := s.carry(at("a"), at("carried"), st); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{"file": "of a/file", "b/same": "of a/file", "b": "of a/b", "b/deep": "of a/b/deep", ".": "of a"} {
		for name, want := range map[string]string{"user.test": want, "user.empty": ""} {
			value := make([]byte, 100)
			if n, err := unix.Lgetxattr(at(filepath.Join("carried", p)), name, value); err != nil || string(value[:n]) != want {
				t.Errorf("%s: %s: %q, %v", p, name, value[:max(n, 0)], err)
			}
		}
	}
	value := make([]byte, 100)
	if n, err := unix.Lgetxattr(at("carried/b/deep"), "system.posix_acl_access", value); listed && (err != nil || !bytes.Equal(value[:n], access)) {
		t.Errorf("the access list: %v, %v", value[:max(n, 0)], err)
	}
	if now, err := os.Stat(at("carried/b/deep")); err != nil || now.Mode() != deep.Mode() {
		t.Errorf("%v, was %v, %v", now.Mode(), deep.Mode(), err)
	}
	for _, pair := range [][2]string{{"carried/file", "carried/b/same"}, {"carried/link", "carried/b/samelink"}} {
		x, err := os.Lstat(at(pair[0]))
		y, yerr := os.Lstat(at(pair[1]))
		if err != nil || yerr != nil || !os.SameFile(x, y) {
			t.Errorf("%q are two files: %v, %v", pair, err, yerr)
		}
	}
	x, err := os.Lstat(at("carried/file"))
	y, yerr := os.Lstat(at("outside"))
	if err != nil || yerr != nil || os.SameFile(x, y) || x.Mode().Perm() != 0o440 {
		t.Errorf("%v, %v; %v, %v", x, y, err, yerr)
	}
}

// watching is a watch, and what it has told.
type watching struct {
	*call
	seen []string
}

func watch(t *testing.T, dir string, recursive bool) *watching {
	w := &watching{call: begin(t, Request{Op: OpWatch, Path: Text(dir), Recursive: recursive, Limit: 20}, Options{Umask: -1})}
	kind, payload, err := w.in.Next()
	if err != nil || kind != FrameReady {
		t.Fatalf("%q %s, %v", kind, payload, err)
	}
	return w
}

// expect reads until an event has come.
func (w *watching) expect(kind, path string) {
	w.t.Helper()
	want := kind + " " + path
	for !slices.Contains(w.seen, want) {
		frame, payload, err := w.in.Next()
		if err != nil || frame != FrameEvents {
			w.t.Fatalf("%q %s, %v; before: %q, not %s", frame, payload, err, w.seen, want)
		}
		events, err := Parse[[]Event](payload)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range events {
			w.seen = append(w.seen, e.Type+" "+string(e.Path))
		}
	}
}

func TestWatch(t *testing.T) {
	dir := tree(t)
	w := watch(t, dir, true)
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(dir, "a/b/new"), []byte("x"), 0o644))
	w.expect("create", "a/b/new")
	w.expect("write", "a/b/new")
	must(os.Chmod(filepath.Join(dir, "a/b/new"), 0o600))
	w.expect("chmod", "a/b/new")
	must(os.MkdirAll(filepath.Join(dir, "n/e/w"), 0o755))
	w.expect("create", "n/e/w")
	must(os.WriteFile(filepath.Join(dir, "n/e/w/file"), nil, 0o644))
	w.expect("create", "n/e/w/file")
	must(os.Rename(filepath.Join(dir, "n"), filepath.Join(dir, "moved")))
	w.expect("rename", "n")
	w.expect("create", "moved")
	must(os.WriteFile(filepath.Join(dir, "end"), nil, 0o644)) // after it the names are known anew
	w.expect("create", "end")
	must(os.Remove(filepath.Join(dir, "moved/e/w/file")))
	w.expect("remove", "moved/e/w/file")
	must(os.RemoveAll(dir))
	w.expect("remove", ".")
	if kind, _, err := w.in.Next(); err != nil || kind != FrameDone {
		t.Errorf("%q, %v", kind, err)
	}
}

func TestWatchEnds(t *testing.T) {
	dir := tree(t)
	w := watch(t, dir, false)
	if err := os.WriteFile(filepath.Join(dir, "a/below"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "here"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.expect("create", "here")
	if slices.Contains(w.seen, "create a/below") {
		t.Errorf("%q", w.seen)
	}
	if err := w.to.Close(); err != nil {
		t.Fatal(err)
	}
	for {
		kind, _, err := w.in.Next()
		if err != nil {
			t.Fatal(err)
		}
		if kind == FrameDone {
			break
		}
	}
	for i := range 30 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprint("many", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if r := do(t, Request{Op: OpWatch, Path: Text(dir), Recursive: true, Limit: 20}, "").done; r.Errno != "E2BIG" {
		t.Errorf("%+v", r)
	}
	file := watch(t, filepath.Join(dir, "here"), false)
	if err := os.WriteFile(filepath.Join(dir, "here"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	file.expect("write", ".")
}

func FuzzFrames(f *testing.F) {
	var b bytes.Buffer
	_ = WriteJSON(&b, FrameRequest, Request{Op: OpStat, Path: "/no/such/file"})
	f.Add(b.Bytes())
	f.Add([]byte{FrameDone, 0, 0, 0, 2, '{', '}'})
	f.Add([]byte{FrameData, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		for {
			kind, payload, err := r.Next()
			if err != nil {
				return
			}
			if len(payload) > MaxFrame {
				t.Errorf("%d bytes", len(payload))
			}
			if q, err := Parse[Request](payload); err == nil {
				var again bytes.Buffer
				if err := WriteJSON(&again, kind, q); err != nil {
					t.Skip() // as JSON, its names may be longer
				}
				k, p, err := NewReader(&again).Next()
				if back, perr := Parse[Request](p); err != nil || perr != nil || k != kind || back != q {
					t.Errorf("%+v became %+v (%v, %v)", q, back, err, perr)
				}
			}
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("root:x:0:0:root:/root:/bin/sh\n# x\nuser:x:1000:\n")
	f.Fuzz(func(t *testing.T, text string) {
		for id, name := range parseNames(strings.NewReader(text)) {
			if name == "" || len(name) > 256 || strings.ContainsAny(name, ":\n") {
				t.Errorf("%d is %q", id, name)
			}
		}
	})
}
