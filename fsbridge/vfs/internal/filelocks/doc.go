// Package filelocks holds, on the host's files, the record locks (fcntl) that a client's
// processes hold on its own view of them. So they meet the locks of processes outside.
//
// The client names the owner of a lock (a process's table of descriptors). Each owner has
// an open file description of the host's file, and its locks are locks of that
// description (F_OFD_SETLK in fcntl(2)). The host decides about all conflicts: between
// two owners, and with anybody outside.
//
// # Files whose mappings are shared
//
// A file can be marked as apart: SQLite shares the index of its write-ahead log through
// a mapping, and the pages of a mapping in the client are not those of the host. If both
// sides used it at the same time, they would destroy each other's rows. As long as an owner
// of ours has any lock on such a file, nobody outside has one: an exclusive lock on all
// of the host's file stands for all owners. Who comes second gets EAGAIN, which
// SQLite calls a busy database. Conflicts between our owners are decided on
// a file of their own.
//
// # Deadlocks
//
// The host finds no deadlocks between open file descriptions: where F_SETLKW natively
// fails with EDEADLK, it waits here until a signal ends it.
//
// # Locks
//
// Table.mu alone. No system call below it waits for anybody.
package filelocks
