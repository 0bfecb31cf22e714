//go:build !linux || portable

package console

// follows: a job does not stop with its command here. Nobody would answer meanwhile for its session: a watch needs Linux.
const follows = false

// follow is not called: no command tells that it has stopped.
func (*Job) follow() {}
