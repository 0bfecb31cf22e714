package socket

import "os"

// Unready is what a socket's name ends with until somebody listens there: one that
// refuses a connection is that of a process that is gone.
const Unready = ".new"

// Peer returns the user id of the process that connected, and whether it may: it
// must be this process's user, or root.
func Peer(conn *Conn) (uid int, allowed bool, err error) {
	uid, _, err = Credentials(conn)
	return uid, err == nil && (uid == 0 || uid == os.Getuid()), err
}
