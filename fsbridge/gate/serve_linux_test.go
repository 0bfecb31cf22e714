package gate

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor/none"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestServed: on a mount, a program waits for an answer; what is allowed can be read, the rest cannot, a
// process that waits can be killed, and what is hidden is not asked about.
func TestServed(t *testing.T) {
	require.Mount(t)
	base := t.TempDir()
	host, mnt := filepath.Join(base, "host"), filepath.Join(base, "mnt")
	for path, text := range map[string]string{"sdk/lib/x": "x", "file": "f", "secret": "s", "way/folder/in": "i", "way/other": "o", "settings/ours/a/b": "b", "settings/other": "o"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(host, path)), 0o755), os.WriteFile(filepath.Join(host, path), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(mnt, 0o755), os.Symlink("sdk/lib/x", filepath.Join(host, "link")),
		os.Link(filepath.Join(host, "secret"), filepath.Join(host, "alias"))); err != nil {
		t.Fatal(err)
	}
	asked, ask := questions()
	g := New(Options{Path: host, Ask: ask})
	dev, err := none.Mount(mnt, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Serve(dev, Mount{Hidden: []string{"secret", "missing"}, Passages: []string{filepath.Join(host, "way/folder"), "/elsewhere"}, Open: []string{filepath.Join(host, "settings/ours"), "/elsewhere"}})
	if err != nil {
		none.Unmount(mnt)
		t.Fatal(err)
	}
	t.Cleanup(func() { none.Unmount(mnt); s.Wait() })

	read := func(path string) <-chan error {
		done := make(chan error, 1)
		go func() {
			// Not by os: its poller asks the file system, which this process itself serves, and holds up
			// everything until that has answered.
			fd, err := unix.Open(filepath.Join(mnt, path), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				_, err = unix.Read(fd, make([]byte, 16))
				err = errors.Join(err, unix.Close(fd))
			}
			done <- err
		}()
		return done
	}
	answer := func(path string, allow bool) {
		t.Helper()
		p := within(t, path, asked)
		if p.Path != filepath.Join(host, path) || len(p.Callers) == 0 || p.Callers[0].Name == "" {
			t.Fatalf("asked about %+v", p.Question)
		}
		p.answer <- allow
	}
	listed := func(dir string) (names []string) {
		t.Helper()
		entries, err := os.ReadDir(filepath.Join(mnt, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}

	if got := listed("."); !slices.Equal(got, []string{"settings", "way"}) {
		t.Errorf("at first there is %q", got)
	}
	cat := exec.CommandContext(t.Context(), "cat", filepath.Join(mnt, "sdk/lib/x"))
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	killed := within(t, "the first question", asked)
	if err := cat.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cat.Wait()
	within(t, "the end of the question", killed.ctx.Done())

	got := read("sdk/lib/x")
	answer("sdk", true)
	if err := within(t, "sdk", got); err != nil {
		t.Error(err)
	}
	got = read("link") // where it leads is allowed, it is not
	answer("link", true)
	if err := within(t, "link", got); err != nil {
		t.Error(err)
	}
	got = read("file")
	answer("file", false)
	for range 2 { // the second time it is not asked
		if err := within(t, "file", got); !errors.Is(err, syscall.EACCES) {
			t.Errorf("a denied file: %v", err)
		}
		got = read("file")
	}
	within(t, "file", got)
	for path, want := range map[string]error{"secret": syscall.EACCES, "alias": syscall.EACCES, "none": syscall.ENOENT, "way/none": syscall.ENOENT} {
		if err := within(t, path, read(path)); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := os.Stat(filepath.Join(mnt, "way/folder")); err != nil {
		t.Error(err)
	}
	if err := within(t, "what is open", read("settings/ours/a/b")); err != nil {
		t.Error(err)
	}
	if got := listed("settings"); !slices.Equal(got, []string{"ours"}) {
		t.Errorf("on the way to what is open there is %q", got)
	}
	got = read("settings/other")
	answer("settings/other", false)
	within(t, "settings/other", got)
	got = read("way/other")
	answer("way/other", true)
	within(t, "way/other", got)
	if got := listed("."); !slices.Contains(got, "sdk") || slices.Contains(got, "file") || slices.Contains(got, "secret") {
		t.Errorf("then there is %q", got)
	}
	if _, err := unix.Open(filepath.Join(mnt, "sdk/lib/x"), unix.O_WRONLY|unix.O_CLOEXEC, 0); !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOTSUP) {
		t.Errorf("it can be written: %v", err)
	}
}

// TestMountsStay: what is mounted below a passage stays when the kernel asks for the names on the way again, also if the
// host gives them to another directory; and so does a directory in which a program is.
func TestMountsStay(t *testing.T) {
	require.Mount(t)
	base := t.TempDir()
	host, mnt := filepath.Join(base, "host"), filepath.Join(base, "mnt")
	if err := errors.Join(os.MkdirAll(filepath.Join(host, "way/folder"), 0o755), os.MkdirAll(filepath.Join(host, "sdk/lib"), 0o755), os.Mkdir(mnt, 0o755)); err != nil {
		t.Fatal(err)
	}
	g := New(Options{Path: host, Ask: func(context.Context, Question) (bool, error) { return true, nil }})
	dev, err := none.Mount(mnt, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Serve(dev, Mount{Passages: []string{filepath.Join(host, "way/folder")}})
	if err != nil {
		none.Unmount(mnt)
		t.Fatal(err)
	}
	t.Cleanup(func() { none.Unmount(mnt); s.Wait() })
	ctx := &fuse.Context{}
	look := func(n *node, name string) *fs.Inode {
		t.Helper()
		var out fuse.EntryOut
		i, errno := n.Lookup(ctx, name, &out)
		if errno != 0 {
			t.Fatalf("%s: %v", name, errno)
		}
		return i
	}
	// The kernel knows them from here on.
	for _, path := range []string{"way/folder", "sdk/lib"} {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(mnt, path), &st); err != nil {
			t.Fatal(err)
		}
	}
	way, sdk := look(s.root, "way"), look(s.root, "sdk")
	folder := look(way.Operations().(*node), "folder")
	if again := look(s.root, "sdk"); again != sdk {
		t.Error("the same directory is another node")
	}
	for _, dir := range []string{"way", "sdk"} {
		if err := errors.Join(os.Rename(filepath.Join(host, dir), filepath.Join(host, dir+"-old")), os.MkdirAll(filepath.Join(host, dir, "folder"), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if again := look(s.root, "way"); again != way || look(again.Operations().(*node), "folder") != folder {
		t.Error("a passage is another node")
	}
	if again := look(s.root, "sdk"); again == sdk {
		t.Error("another directory is the same node")
	}
}
