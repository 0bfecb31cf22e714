package shortcut

import "os"

// Request is the number of the request that was sent. It is the connection's first.
const Request = 1

// Run is a command that a session was asked to run, and whose end is not known.
type Run struct {
	Conn    *os.File       // to the session's control socket
	Answer  []byte         // what was read of it
	Signals chan os.Signal // gets those that are caught while a command runs
	Socket  string         // the control socket's path
}

// taken is what the package's initialisation has begun, alone that it has found no session to ask: main starts only after it.
var taken, alone = begin()

// Alone reports whether the command line is a plain 'sandbox run' for which there is no session, so that main will start one.
// It may be wrong: somebody may have started one since.
func Alone() bool { return alone }

// Taken returns what was begun, once; nil if nothing was. The caller has it, and its connection, from then on.
func Taken() *Run {
	r := taken
	taken = nil
	return r
}
