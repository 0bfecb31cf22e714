package socket

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// longestPath is how many bytes the kernel takes, without the final zero.
const longestPath = 107

// Credentials returns the user and the process on the other side, as they were
// when it connected or began to listen.
func Credentials(conn *net.UnixConn) (uid, pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return -1, 0, err
	}
	if credErr != nil {
		return -1, 0, credErr
	}
	return int(cred.Uid), int(cred.Pid), nil
}

// Trusted returns an error if who listens is another user, or is in a sandbox of ours: the kernel says who. A name of a socket is found in files,
// which others may have written.
func Trusted(conn *net.UnixConn) error {
	uid, pid, err := Credentials(conn)
	if err != nil {
		return err
	}
	if uid != os.Geteuid() {
		return fmt.Errorf("%w: it is of user %d", ErrStranger, uid)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil // it has ended, and nobody answers
	}
	for line := range strings.Lines(string(status)) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok && len(strings.Fields(numbers)) > 1 {
			return fmt.Errorf("%w: process %d is in a sandbox, or in a container", ErrStranger, pid)
		}
	}
	return nil
}
