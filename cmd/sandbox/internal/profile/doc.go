// Package profile knows what single agents need in the sandbox: the configuration that they
// write, the hosts that they talk to, the variables with their keys, and their own
// credentials. A profile is a TOML file; those of well-known agents are built in. The user's
// own, then the organisation's, take the place of a built-in one of the same name. A project
// has none, because what runs inside could write it.
//
// A profile only widens, so it is checked as strictly as can be: what it writes lies below
// the home directory, after symlinks are resolved, and is no known secret; a credential that it
// shows lies in what it writes. It names no folder of a session.
package profile
