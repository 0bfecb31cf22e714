// Package inherit says what a command inherits from the process that calls the program: descriptors, variables, and the directories of the
// user that variables name. It is light, since the shortcut uses it before all else.
//
// # Directories of the user
//
// This part chooses the directories that variables of the user's environment name: where sessions have their sockets
// (XDG_RUNTIME_DIR), and where temporary files go (TMPDIR). A variable may be wrong: it names what is not there, or what another user
// could change. Then there is another directory, and an [UnfitDir] that says why.
//
// cmd/sandbox/internal/shortcut uses it before most packages are initialised, so it imports os and syscall only.
//
// # Descriptors
//
// This part says which of a caller's open files a command may have: a list, the same for all runtimes that pass descriptors.
//
// By a directory all of the host could be reached, by a device or a terminal what its user does later, and by a socket that has a name what others
// listen on. So a command gets files, pipes and pairs of sockets, as its standard input and output also the devices that each jail has, and the
// log of a service.
//
// What a program has open beyond the standard three was passed on purpose by whoever started it (exec 9>file, diff <(a) <(b), make's jobserver), or by
// accident. A shell's own are closed when it executes a program. So the rule for these is narrower: no file of the
// kernel's (/proc, a namespace), and none in memory that has no name.
//
// A command also starts with signals ignored that its caller has had ignored: [IgnoredSignal].
//
// cmd/sandbox/internal/shortcut uses it before most packages are initialised, so it imports syscall and os/signal only: errors is
// not needed, strings and slices are initialised late.
//
// # Variables
//
// This part says which variables of the caller's environment a command gets.
//
// cmd/sandbox/internal/shortcut uses it before most packages are initialised, so it imports the package os
// only: strings and slices are initialised late.
package inherit
