// Package paths asks the guest's own program to look at files and to change them, as commands there see them: it is the host's end of guest/paths.
//
// For example, what is in /tmp inside:
//
//	c := paths.Caller{Exec: guest.Exec, Number: next}
//	_, err := c.Do(ctx, paths.Request{Op: paths.OpList, Path: "/tmp", Limit: 100}, paths.Handlers{Entries: func(list []paths.Info) error { ... }}, nil)
//
// Each call starts the program once, as a command that has no terminal and two pipes, and ends it.
//
// # Trust
//
// Everything that comes from the guest is hostile. A frame is bounded, and what it says is looked at: paths of a list lie below what was asked for, types are known ones, and nothing comes twice or unasked. Texts of errors are not
// passed on; an error is known by its number. How long a program takes is up to the caller's context, as long as it says that it works: whoever stops it (SIGSTOP) inside has it ended ([ErrSilent]).
//
// A descriptor that comes from the guest is one of a regular file on the device that we have named, that of a folder which this host serves, or it is thrown away: a file of another file system might never answer. It is of a file that whoever
// sent it could open in that way, so nothing more is read or written by it than the guest could read and write; what it is of, and what is in it, is the guest's to say, as all that it sends. It is read and written to the length that it had at
// first, and no further.
package paths
