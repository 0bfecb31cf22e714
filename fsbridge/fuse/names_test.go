//go:build linux

package fuse

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// TestNames uses names that only a file system takes.
func TestNames(t *testing.T) {
	m := mount(t, nil)
	names := []string{strings.Repeat("n", 255), "new\nline", "\xff\xfe not UTF-8", " ", "-rf", "*", "a\\b", "..."}
	for _, name := range names {
		check(t, os.WriteFile(filepath.Join(m.mnt, name), []byte(name), 0o640))
		got, err := os.ReadFile(filepath.Join(m.host, name))
		if err != nil || string(got) != name {
			t.Errorf("%q: host has %q, %v", name, got, err)
		}
	}
	var listed []string
	entries, err := os.ReadDir(m.mnt)
	check(t, err)
	for _, e := range entries {
		listed = append(listed, e.Name())
	}
	slices.Sort(names)
	if !slices.Equal(listed, names) {
		t.Errorf("listed %q, want %q", listed, names)
	}
	if err := os.Mkdir(filepath.Join(m.mnt, strings.Repeat("n", 256)), 0o755); vfs.Errno(err) != syscall.ENAMETOOLONG {
		t.Errorf("a name of 256 bytes: %v", err)
	}
}

// TestDeepTree makes, reads and removes a tree far deeper than PATH_MAX with
// few descriptors.
func TestDeepTree(t *testing.T) {
	m := mount(t, func(o *vfs.Options) { o.MaxDirFDs = 4 })
	const depth = 60 // of 255 bytes: 15,360
	name := strings.Repeat("d", 255)
	fd, err := unix.Open(m.mnt, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	fds := []int{fd}
	for range depth {
		check(t, unix.Mkdirat(fd, name, 0o755))
		fd, err = unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		check(t, err)
		fds = append(fds, fd)
	}
	f, err := unix.Openat(fd, "bottom", unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	check(t, err)
	_, err = unix.Write(f, []byte("deep"))
	check(t, err)
	check(t, unix.Close(f))

	root, err := hostfs.OpenRoot(m.host)
	check(t, err)
	defer root.Close()
	path := strings.Repeat(name+"/", depth) + "bottom"
	h, err := root.OpenPath(path, unix.O_RDONLY)
	check(t, err)
	buf := make([]byte, 8)
	n, err := hostfs.PreadFull(h, buf, 0)
	if err != nil || string(buf[:n]) != "deep" {
		t.Errorf("on the host: %q, %v", buf[:n], err)
	}
	hostfs.Close(h)

	check(t, unix.Renameat(fd, "bottom", fds[0], "top"))
	for i := depth; i > 0; i-- {
		check(t, unix.Close(fds[i]))
		check(t, unix.Unlinkat(fds[i-1], name, unix.AT_REMOVEDIR))
	}
	check(t, unix.Close(fds[0]))
	if got, err := os.ReadFile(filepath.Join(m.host, "top")); string(got) != "deep" {
		t.Errorf("moved to the top: %q, %v", got, err)
	}
}

// TestManyFiles lists, reads and removes more files and directories than there
// may be descriptors, and bounds what a node costs.
func TestManyFiles(t *testing.T) {
	m := mount(t, func(o *vfs.Options) { o.MaxDirFDs = 64 })
	const dirs, files = 400, 50
	for d := range dirs {
		dir := filepath.Join(m.host, fmt.Sprintf("d%03d", d))
		check(t, os.Mkdir(dir, 0o755))
		for f := range files {
			check(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%02d", f)), []byte{byte(d)}, 0o644))
		}
	}
	var limit, old unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	limit = old
	limit.Cur = 200
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })

	before := heap()
	seen := 0
	check(t, filepath.WalkDir(m.mnt, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			seen++
			if _, err := e.Info(); err != nil {
				return err
			}
		}
		return err
	}))
	if seen != dirs*files {
		t.Errorf("%d files listed, want %d", seen, dirs*files)
	}
	cost := (int64(heap()-before) - m.device.buffered()) / int64(dirs*(files+1))
	t.Logf("%d bytes of heap a node", cost)
	if cost > 400 {
		t.Errorf("a node costs %d bytes: 100,000 would cost more than 40 MB", cost)
	}
	for _, d := range []int{0, dirs / 2, dirs - 1} {
		got, err := os.ReadFile(filepath.Join(m.mnt, fmt.Sprintf("d%03d/file07", d)))
		if err != nil || !bytes.Equal(got, []byte{byte(d)}) {
			t.Errorf("d%03d: %v, %v", d, got, err)
		}
	}
	check(t, os.RemoveAll(filepath.Join(m.mnt, "d000")))
	for d := range dirs {
		check(t, os.RemoveAll(filepath.Join(m.mnt, fmt.Sprintf("d%03d", d))))
	}
	entries, err := os.ReadDir(m.host)
	if err != nil || len(entries) != 0 {
		t.Errorf("%d entries left, %v", len(entries), err)
	}
}

func heap() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// TestBigDirectory lists a directory over many requests while it shrinks.
func TestBigDirectory(t *testing.T) {
	m := mount(t, func(o *vfs.Options) { o.Cache = vfs.CacheNone })
	const n = 3000
	for i := range n {
		check(t, os.WriteFile(filepath.Join(m.host, fmt.Sprintf("a file with a name of some length %05d", i)), nil, 0o644))
	}
	f, err := os.Open(m.mnt)
	check(t, err)
	defer f.Close()
	seen := map[string]bool{}
	for {
		names, err := f.Readdirnames(100)
		if len(names) == 0 {
			break
		}
		check(t, err)
		for i, name := range names {
			if seen[name] {
				t.Fatalf("%q twice", name)
			}
			seen[name] = true
			if i%2 == 0 {
				check(t, os.Remove(filepath.Join(m.mnt, name)))
			}
		}
	}
	if len(seen) != n {
		t.Errorf("%d names, want %d", len(seen), n)
	}
}

// TestListing has the dots that programs expect.
func TestListing(t *testing.T) {
	m := mount(t, nil)
	check(t, os.Mkdir(filepath.Join(m.host, "sub"), 0o755))
	fd, err := unix.Open(m.mnt, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	var names []string
	for {
		more, err := hostfs.ReadAllDirents(fd, buf, func(d hostfs.Dirent) bool { names = append(names, d.Name); return true })
		check(t, err)
		if !more {
			break
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{".", "..", "sub"}) {
		t.Errorf("listed %q", names)
	}
	if c := m.Tree().Counts(); c["OPENDIR"] > 1 {
		t.Errorf("%d OPENDIR requests; opendir must cost none", c["OPENDIR"])
	}
}
