//go:build linux

package mediate

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// Threads make a directory and what is in it at the same time, as package managers do:
// each finds that the directory is there or that it is missing, and nothing else.
func TestMBMakeTogether(t *testing.T) {
	j := newJail(t)
	in := j.start("makeTogether", j.folder)
	if said := in.hear(); said != "<nil>" {
		t.Error(said)
	}
	in.ok()
}

func makeTogether(w *workload) {
	parent := filepath.Join(w.args[0], "parent")
	for range 200 {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for {
					err := unix.Mkdir(filepath.Join(parent, fmt.Sprint(i)), 0o755)
					if err == unix.ENOENT {
						if err = unix.Mkdir(parent, 0o755); err == nil || err == unix.EEXIST {
							continue
						}
					}
					if err != nil {
						w.say("%v", err)
						os.Exit(1)
					}
					return
				}
			})
		}
		all.Wait()
		if err := os.RemoveAll(parent); err != nil {
			w.say("%v", err)
			os.Exit(1)
		}
	}
	w.say("%v", error(nil))
}

// Threads make and remove a directory and a file while others use their names: those find what is
// there or that it is missing, and are never told that the mount is read-only.
func TestMBOpenTogether(t *testing.T) {
	for _, how := range []string{"absolute", "relative"} {
		t.Run(how, func(t *testing.T) {
			j := newJail(t)
			dir := "."
			if how == "absolute" {
				dir = j.folder
			}
			in := j.start("openTogether", dir)
			if said := in.hear(); said != "<nil>" {
				t.Error(said)
			}
			in.ok()
		})
	}
}

// What is missing on a proc file system is left to the kernel: there the caller may see more than we do,
// and an open for writing outside of the folder is its own business anyway.
func TestMBLostOnProc(t *testing.T) {
	j := newJail(t)
	in := j.start("lostOnProc")
	if said := in.hear(); said != "<nil> no such file or directory" {
		t.Error(said)
	}
	in.ok()
}

func lostOnProc(w *workload) {
	open := func(path string) error {
		fd, err := unix.Open(path, unix.O_WRONLY, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
	w.say("%v %v", open("/proc/thread-self/comm"), open("/proc/self/task/1000000/comm"))
}

// together are the calls on a file that comes and goes, with its directory, and what they may find
// besides that it is missing.
func together(dir, file, other string) map[string]func() error {
	open := func(path string, flags int) error {
		fd, err := unix.Open(path, flags, 0o644)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
	return map[string]func() error{
		"open":             func() error { return open(file, unix.O_WRONLY) },
		"make":             func() error { return open(other, unix.O_WRONLY|unix.O_CREAT) },
		"make for reading": func() error { return open(file, unix.O_RDONLY|unix.O_CREAT) },
		"truncate":         func() error { return unix.Truncate(file, 1) },
		"access":           func() error { return unix.Access(file, unix.W_OK) },
		"unlink":           func() error { return unix.Unlink(other) },
		"nameless": func() error {
			err := open(dir, unix.O_WRONLY|unix.O_TMPFILE)
			if err == unix.EPERM { // ext4's for a directory that was removed meanwhile, natively, too
				err = nil
			}
			return err
		},
		"rename":             func() error { return unix.Rename(file, other) },
		"link":               func() error { return unix.Link(file, other) },
		"remove a directory": func() error { return unix.Rmdir(filepath.Join(dir, "none")) },
	}
}

func openTogether(w *workload) {
	dir := filepath.Join(w.args[0], "dir")
	file, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	var over atomic.Bool
	var all sync.WaitGroup
	wrong := make(chan string, 1)
	for name, call := range together(dir, file, other) {
		all.Go(func() {
			for !over.Load() {
				switch err := call(); err {
				case nil, unix.ENOENT, unix.EEXIST:
				default:
					select {
					case wrong <- fmt.Sprintf("%s: %v", name, err):
						over.Store(true)
					default:
					}
				}
			}
		})
	}
	for range 150 {
		_ = unix.Mkdir(dir, 0o755)
		if fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CREAT, 0o644); err == nil {
			_ = unix.Close(fd)
		}
		_ = os.RemoveAll(dir)
	}
	over.Store(true)
	all.Wait()
	select {
	case said := <-wrong:
		w.say("%s", said)
		os.Exit(1)
	default:
		w.say("%v", error(nil))
	}
}
