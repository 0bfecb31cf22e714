//go:build linux

package fuse

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// TestTooManyOpenFiles: who opens files without end gets ENFILE while there are
// descriptors left for everything else, and no file that is not made; once he has
// closed some it goes on.
func TestTooManyOpenFiles(t *testing.T) {
	var maxFD int
	m := mount(t, func(o *vfs.Options) {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		maxFD = fd + 100
		o.MaxFD = maxFD
	})
	if err := os.WriteFile(filepath.Join(m.host, "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	var open []int
	defer func() {
		for _, fd := range open {
			unix.Close(fd)
		}
	}()
	try := func(name string, flags int) error {
		fd, err := unix.Open(filepath.Join(m.mnt, name), flags|unix.O_CLOEXEC, 0o644)
		if err == nil {
			open = append(open, fd)
		}
		return err
	}
	var err error
	for len(open) < 200 && err == nil { // two descriptors each: this process has both ends
		err = try("f", unix.O_RDONLY)
	}
	if !errors.Is(err, unix.ENFILE) {
		t.Fatalf("after %d open files: %v", len(open), err)
	}
	if err := try("new", unix.O_RDWR|unix.O_CREAT); !errors.Is(err, unix.ENFILE) {
		t.Errorf("created: %v", err)
	}
	if err := try(".", unix.O_RDWR|unix.O_TMPFILE); !errors.Is(err, unix.ENFILE) {
		t.Errorf("an unnamed file: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(m.host, "new")); !os.IsNotExist(err) {
		t.Errorf("the refused file is there: %v", err)
	}
	for _, do := range []error{unix.Mkdir(filepath.Join(m.mnt, "d"), 0o755), unix.Unlink(filepath.Join(m.mnt, "f"))} {
		if do != nil {
			t.Errorf("without an open file: %v", do)
		}
	}
	for _, fd := range open[:len(open)/2] {
		unix.Close(fd)
	}
	open = open[len(open)/2:]
	for end := time.Now().Add(5 * time.Minute); ; { // releases come later
		if err = try("new", unix.O_RDWR|unix.O_CREAT); err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		t.Errorf("after some were closed: %v", err)
	}
}
