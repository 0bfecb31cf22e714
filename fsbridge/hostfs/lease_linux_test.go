package hostfs

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenMeetsLease: what opens for writing while somebody looks whether others write gets
// the file, also with O_NONBLOCK.
func TestOpenMeetsLease(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dirfd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dirfd)
	look, err := OpenAt(dirfd, "f", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(look)
	path, err := OpenAt(dirfd, "f", unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(path)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				Written(look)
			}
		}
	})
	const how = unix.O_WRONLY | unix.O_NONBLOCK
	for range 3000 {
		a, err := OpenAt(dirfd, "f", how, 0)
		if err != nil {
			t.Error(err)
			break
		}
		b, err := ReopenFD(path, how)
		if err != nil {
			t.Error(err)
			break
		}
		if flags, err := unix.FcntlInt(uintptr(b), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
			t.Errorf("flags %#x, %v", flags, err)
		}
		_ = Close(a)
		_ = Close(b)
	}
	close(stop)
	wg.Wait()
}
