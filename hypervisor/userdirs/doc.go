// Package userdirs chooses the directories that variables of the user's environment name: where sessions have their sockets
// (XDG_RUNTIME_DIR), and where temporary files go (TMPDIR). A variable may be wrong: it names what is not there, or what another user
// could change. Then there is another directory, and an [Unfit] that says why.
//
// cmd/sandbox/internal/shortcut uses it before most packages are initialised, so it imports os and syscall only.
package userdirs
