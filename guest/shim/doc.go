// Package shim runs commands inside a guest, as the control channel asks
// (guest/control). It interprets nothing and touches no file of the user's: it
// starts processes, passes their data and says how they ended.
//
// For example, the supervisor sends a message with ["make", "test"], a directory and three descriptors. The shim starts make with them, answers with its number, and sends
// its exit status when it has ended, and whether anything else is still running inside.
//
// Each command is the leader of a session of its own, and of its terminal if it
// has one; but one whose host wants to hear when it is stopped is a job below a
// leader that does nothing else ([Lead]). The parent of any other command of PID 1's is a process that shares its memory
// and makes a few system calls (parent_linux.go): PID 1 is nobody's parent but an orphan's. When it ends, what it left running goes on; what those processes
// still write to the command's streams is thrown away. Cancel ends every
// process of the session.
//
// As PID 1 ([Options.Init]) it also reaps every orphan.
//
// # Locks
//
// Server.mu guards the tables; it is never held while a process is started or a
// message is sent.
package shim
