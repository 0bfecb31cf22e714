// Package launch turns the flags and the configuration ([Launcher]) into what they
// mean here: the working folders, the runtime with its network and image, the
// configuration of a session, and the service that answers for a folder.
//
// A folder's log has one owner. [Launcher.Service] opens it without a session; if
// a session has it, the service is a client of that session's control socket; if
// another short-lived command has it, it waits a few seconds.
//
// The directory of control sockets must belong to the user alone: who can put a
// socket there could answer for a session. [Launcher.RuntimeDir] sees to this.
package launch
