package approval

import (
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// limitFiles makes writes beyond so many bytes of a file fail, as on a full disk.
func limitFiles(t *testing.T, bytes uint64) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
			t.Error(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	})
}
