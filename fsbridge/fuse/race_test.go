//go:build linux

package fuse

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestSC01RacingSymlinks (SC-01, SC-03): while a hostile process on the host
// swaps files and directories for symlinks and chains of symlinks that lead
// outside, nothing that goes through the mount reaches what is outside. The
// server resolves no link; only the reader's own kernel does, and not here.
func TestSC01RacingSymlinks(t *testing.T) {
	m := mount(t, func(o *vfs.Options) { o.Cache = vfs.CacheNone; o.MaxDirFDs = 2; o.Hooks = new(recorder) })
	outside := t.TempDir()
	secret := filepath.Join(outside, "f")
	check(t, os.WriteFile(secret, []byte("secret"), 0o600))
	host := func(name string) string { return filepath.Join(m.host, name) }
	check(t, os.Symlink(outside, host("c")))
	check(t, os.Symlink("c", host("b")))
	check(t, os.Mkdir(host("spare"), 0o755))

	check(t, os.Mkdir(host("d"), 0o755))
	check(t, os.WriteFile(host("d/f"), []byte("inside"), 0o644))
	check(t, os.Symlink("b", host("evil"))) // a chain: evil -> b -> c -> outside
	check(t, os.Symlink(secret, host("d/evil")))

	var stop atomic.Bool
	var wg sync.WaitGroup
	swap := func(dir, a, b string) {
		defer wg.Done()
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		defer unix.Close(fd)
		for !stop.Load() {
			_ = unix.Renameat2(fd, a, fd, b, unix.RENAME_EXCHANGE)
		}
	}
	wg.Add(2)
	go swap(m.host, "d", "evil")
	go swap(host("d"), "f", "evil")

	root, err := unix.Open(m.mnt, unix.O_PATH|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(root)
	// The reader follows no symlink by itself: what it reaches the server did.
	walk := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	inside := 0
	tries := require.Tries(t, 3000)
	for range tries {
		d, err := unix.Openat2(root, "d", walk)
		if err != nil {
			continue
		}
		if fd, err := unix.Openat(d, "f", unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
			buf := make([]byte, 16)
			n, _ := unix.Pread(fd, buf, 0)
			if strings.HasPrefix(string(buf[:n]), "sec") {
				t.Error("read what is outside")
			}
			inside++
			_, _ = unix.Pwrite(fd, []byte("INSIDE"), 0)
			_ = unix.Fchmod(fd, 0o666)
			unix.Close(fd)
		}
		_ = unix.Fchmodat(d, "f", 0o644, unix.AT_SYMLINK_NOFOLLOW)
		_ = unix.Mkdirat(d, "made", 0o755)
		_ = unix.Unlinkat(d, "made", unix.AT_REMOVEDIR)
		unix.Close(d)
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d of %d opens met the file", inside, tries)
	if inside == 0 {
		t.Error("the test never opened anything")
	}
	got, err := os.ReadFile(secret)
	st, serr := os.Stat(secret)
	entries, _ := os.ReadDir(outside)
	if err != nil || serr != nil || string(got) != "secret" || st.Mode().Perm() != 0o600 || len(entries) != 1 {
		t.Errorf("outside changed: %q, %v, %v, %v", got, st.Mode(), entries, err)
	}
}

// TestRenamesInside moves directories about through the mount while others
// work below them: every operation finds the file that it means or fails.
func TestRenamesInside(t *testing.T) {
	r := new(recorder)
	m := mount(t, func(o *vfs.Options) { o.MaxDirFDs = 2; o.Hooks = r })
	check(t, os.MkdirAll(filepath.Join(m.mnt, "a/x/y"), 0o755))
	check(t, os.MkdirAll(filepath.Join(m.mnt, "b"), 0o755))
	y, err := unix.Open(filepath.Join(m.mnt, "a/x/y"), unix.O_PATH|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(y)
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for i := 0; !stop.Load(); i++ {
			from, to := "a/x", "b/z"
			if i%2 == 1 {
				from, to = to, from
			}
			if err := os.Rename(filepath.Join(m.mnt, from), filepath.Join(m.mnt, to)); err != nil {
				t.Errorf("rename %s: %v", from, err)
				return
			}
		}
	}()
	// y is held by a descriptor: its own directory is always there.
	for range require.Tries(t, 1000) {
		fd, err := unix.Openat(y, "f", unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
		if err != nil {
			t.Errorf("create: %v", err)
			break
		}
		unix.Close(fd)
		if err := unix.Unlinkat(y, "f", 0); err != nil {
			t.Errorf("unlink: %v", err)
			break
		}
	}
	stop.Store(true)
	wg.Wait()
}
