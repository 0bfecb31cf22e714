package socket

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// longestPath is how many bytes macOS takes, without the final zero.
const longestPath = 103

// Credentials returns the user and the process on the other side, as they were
// when it connected or began to listen.
func Credentials(conn *net.UnixConn) (uid, pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, 0, err
	}
	var cred *unix.Xucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		if cred, credErr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED); credErr == nil {
			pid, credErr = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
		}
	}); err != nil {
		return -1, 0, err
	}
	if credErr != nil {
		return -1, 0, credErr
	}
	return int(cred.Uid), pid, nil
}

// Trusted returns an error if who listens is another user. A name of a socket is found in files, which others may have written.
func Trusted(conn *net.UnixConn) error {
	uid, _, err := Credentials(conn)
	if err == nil && uid != os.Geteuid() {
		err = fmt.Errorf("%w: it is of user %d", ErrStranger, uid)
	}
	return err
}
