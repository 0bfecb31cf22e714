// Package job runs a command in front of the user: a [Job] stands between the
// user's terminal and signals on one side and a session on the other.
//
// A program uses it in this order: [New], HandleSignals on a goroutine of its own,
// then, with a session, Event as its subscriber and Decide on a goroutine; Started
// when the command runs; LeaveTerminal when it has ended; Remarks when the
// terminal is the user's again; Close.
//
// What has to be said while the command runs is kept for the end if the command
// has the terminal, so that it disturbs no full-screen program.
//
// When the command has stopped (Ctrl-Z), so does the program, with its group of
// processes, and goes on with it. A program that has a session serves others
// meanwhile: a [Watch] continues it alone for them. So main calls Watch if
// [IsWatch] says so.
package job
