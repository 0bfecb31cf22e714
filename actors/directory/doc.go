// Package directory is one working folder of a session: its root on the host, its undo
// log, the hooks that every bridge asks, the watcher for edits from outside, the
// bridge that serves it, and its files as frontends read and write them.
//
// A [Directory] is no actor. It puts together the parts of a folder and outlives the
// actors that are in charge of them: the Interceptor owns the log's lifecycle, so
// everything that changes the log is asked of it by a message; what only reads
// (History, Show, Diff, Status) goes to the log itself. The session composes the
// actors and gives the folder what it needs in an [Env].
//
// # Order
//
// New, Open, Intercept and WatchFor come before the actors run; then the runtime
// makes a transport and Share.Serve starts the bridge on it; Stop, the end of the
// guest, and Close end it. Unserve takes the bridge away for a reset.
//
// # Locking
//
// Directory.mu guards which bridge and which files there are. It is a
// leaf: nothing is called while it is held.
//
// # Trust
//
// The folder's content and the undo directory are hostile input to hostfs and undolog,
// which see to that. [Validate] decides which folders may be used at all: none that is
// inside an undo directory, holds its own, or belongs to another session.
package directory
