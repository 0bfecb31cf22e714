// Package control is the one protocol between the host and the program inside a
// guest (cmd/sandbox-guest): JSON objects, one a line, over a socketpair in the
// jail and over virtio-serial in a virtual machine.
//
// # Messages
//
// To the guest: exec, cancel, signal, resize, stdin, stdin_close, ack,
// rollback_notify, clock, invalidate, sync, dial, wake, shutdown. From the guest: hello (first,
// once), step_started, start_failed, output, stopped, step_completed, ack, done (to
// invalidate, sync, dial and wake), inside (a descriptor: the listener for programs inside),
// error. [Message] lists the fields. A virtual machine is
// sent a [MachinePlan] before all of that.
// Unknown fields are ignored, an unknown type is an error that does not break
// the channel. A line is at most [MaxMessage] bytes; a longer one is skipped
// without being buffered.
//
// # Standard streams
//
// Over a connection that carries file descriptors (a Unix socket) an exec brings
// the command's stdin, stdout and stderr with it, and for a terminal the guest
// sends the master's descriptor back with step_started; no byte of output
// passes through the channel. The same way done brings the connection that dial asked
// for. Over any other connection data goes by stdin and
// output messages with a window: a side may have [Window] bytes of one command
// and direction unacknowledged, and ack gives bytes back, so that one blocked
// reader does not stop the other commands. An exec with a port is a connection in place of
// a command, and its bytes travel the same way.
//
// # Job control
//
// A command whose terminal has "stops" is a job of its own: the keys of the terminal stop it, and the guest says so each time (stopped, with
// the signal). The host continues it with the signal CONT. Otherwise nothing that its terminal does stops it.
//
// # Trust
//
// The guest is hostile. The host names every command; what the guest says about
// ids that are not running, twice, out of order or beyond its window is dropped
// and reported ([State]). Memory held for a guest is bounded by the commands
// that the host started.
//
// # Locks
//
// Host.sending before Host.mu before Proc.mu; the latter two are not held while
// writing to the connection.
package control
