package serve

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The runtime waits for a pipe and for a socket; what others share of them stays
// as it was, and what neither is can be read all the same.
func TestStdinIsPollable(t *testing.T) {
	pair := func(t *testing.T) (ours, theirs *os.File) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	}
	file := filepath.Join(t.TempDir(), "requests")
	if err := os.WriteFile(file, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		open     func(t *testing.T) (stdin, client, stderr *os.File)
		pollable bool // by the file that we get
		shared   bool // O_NONBLOCK of what was opened, afterwards
	}{
		{"pipe", func(t *testing.T) (_, _, _ *os.File) {
			var fds [2]int
			if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			return os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w"), os.Stderr
		}, true, false},
		{"socket", func(t *testing.T) (_, _, _ *os.File) { a, b := pair(t); return a, b, os.Stderr }, true, true},
		{"socket that is stderr too", func(t *testing.T) (_, _, _ *os.File) { a, b := pair(t); return a, b, a }, false, false},
		{"file", func(t *testing.T) (_, _, _ *os.File) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			return f, nil, os.Stderr
		}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdin, client, stderr := c.open(t)
			defer stdin.Close()
			own, err := takeStdin(stdin, stderr)
			if err != nil {
				t.Fatal(err)
			}
			defer own.Close()
			if err := own.SetReadDeadline(time.Time{}); errors.Is(err, os.ErrNoDeadline) == c.pollable {
				t.Errorf("a deadline: %v", err)
			}
			flags, err := unix.FcntlInt(stdin.Fd(), unix.F_GETFL, 0)
			if err != nil || (flags&unix.O_NONBLOCK != 0) != c.shared {
				t.Errorf("flags %#x, %v", flags, err)
			}
			if client != nil {
				if _, err := client.WriteString("hello\n"); err != nil {
					t.Fatal(err)
				}
				client.Close()
			}
			if got, err := io.ReadAll(own); err != nil || string(got) != "hello\n" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
