package shortcut

import (
	"os"
	"syscall"
	"testing"
)

// TestFollowSignalled: a signal that comes before the answer is waited for is not waited past.
func TestFollowSignalled(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	session := os.NewFile(uintptr(fds[1]), "session")
	defer session.Close()
	r := &Run{Conn: os.NewFile(uintptr(fds[0]), "client")}
	defer r.Conn.Close()
	wake := make(chan os.Signal, 1)
	wake <- syscall.SIGTERM
	if end, over := r.follow(wake); over {
		t.Errorf("it is over with %+v", end)
	}
}
