package gate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor/none"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// races is how often each of the openers looks while what it opens is exchanged: 40,000 times together.
const races = 10_000

// raceTime bounds that on a machine that has much else to do; alone, with two processors, it takes two seconds.
const raceTime = 15 * time.Second

// TestSwappedBesideOpener: a component of a path is exchanged all the time, between what is allowed and a symlink to what
// is denied, while others open it. The gate decides about the object that it opens: nothing that is denied is ever read.
func TestSwappedBesideOpener(t *testing.T) {
	require.Mount(t)
	base := t.TempDir()
	host, mnt := filepath.Join(base, "host"), filepath.Join(base, "mnt")
	for path, text := range map[string]string{"sdk/d/f": "public", "sdk/g": "public", "sdk/plain/f": "public", "secret/f": "treasure"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(host, path)), 0o755), os.WriteFile(filepath.Join(host, path), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	at := func(path string) string { return filepath.Join(base, path) }
	if err := errors.Join(os.Mkdir(mnt, 0o755),
		os.Symlink("../secret", at("host/sdk/d-away")), os.Symlink("../secret/f", at("host/sdk/g-away")),
		os.Symlink("mnt/sdk/plain", at("l")), os.Symlink("mnt/secret", at("l-away")),
		os.Symlink("mnt/sdk/plain/f", at("k")), os.Symlink("mnt/secret/f", at("k-away"))); err != nil {
		t.Fatal(err)
	}
	var denied atomic.Int64
	g := New(Options{
		Path: host, Ask: func(_ context.Context, q Question) (bool, error) { return q.Path == filepath.Join(host, "sdk"), nil },
		Denied: func(Question, error) { denied.Add(1) },
	})
	dev, err := none.Mount(mnt, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Serve(dev, Mount{})
	if err != nil {
		none.Unmount(mnt)
		t.Fatal(err)
	}
	t.Cleanup(func() { none.Unmount(mnt); s.Wait() })

	var stop atomic.Bool
	swapped := make(chan int)
	go func() {
		n := 0
		for ; !stop.Load(); n++ {
			for _, name := range []string{"host/sdk/d", "host/sdk/g", "l", "k"} {
				if err := unix.Renameat2(unix.AT_FDCWD, at(name), unix.AT_FDCWD, at(name+"-away"), unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					stop.Store(true)
				}
			}
		}
		swapped <- n
	}()
	tries := require.Tries(t, races)
	end := time.Now().Add(raceTime)
	if tries != races {
		end = end.Add(time.Hour)
	}
	var read, refused, leaked atomic.Int64
	var all sync.WaitGroup
	for _, path := range []string{"mnt/sdk/d/f", "mnt/sdk/g", "l/f", "k"} {
		all.Go(func() {
			b := make([]byte, 16)
			for i := 0; i < tries && time.Now().Before(end); i++ {
				n, err := contents(at(path), b)
				switch {
				case err != nil:
					refused.Add(1)
				case string(b[:n]) == "public":
					read.Add(1)
				default:
					leaked.Add(1)
				}
			}
		})
	}
	all.Wait()
	stop.Store(true)
	made := read.Load() + refused.Load() + leaked.Load()
	t.Logf("%d tries beside %d exchanges: %d read, %d refused (%d times by the gate)", made, <-swapped, read.Load(), refused.Load(), denied.Load())
	if n := leaked.Load(); n != 0 {
		t.Errorf("%d of %d tries read what is denied", n, made)
	}
	if read.Load() == 0 || denied.Load() == 0 {
		t.Error("nothing was raced: all was read, or nothing")
	}
}

// contents reads a file without Go's poller, which would ask the file system that this process serves.
func contents(path string, b []byte) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	n, err := unix.Read(fd, b)
	return n, errors.Join(err, unix.Close(fd))
}
