package socket

import (
	"errors"
	"os"
)

// Unready is what a socket's name ends with until somebody listens there: one that
// refuses a connection is that of a process that is gone.
const Unready = ".new"

// ErrStranger says that somebody answers at a socket who is not to be believed.
var ErrStranger = errors.New("who answers there is no session of this user's")

// TooLong tells whether a path has more bytes than that of a socket may have, which are most.
func TooLong(path string) (most int, tooLong bool) {
	return longestPath - len(Unready), len(path+Unready) > longestPath
}

// Peer returns the user id of the process that connected, and whether it may: it
// must be this process's user, or root.
func Peer(conn *Conn) (uid int, allowed bool, err error) {
	uid, _, err = Credentials(conn)
	return uid, err == nil && (uid == 0 || uid == os.Getuid()), err
}
