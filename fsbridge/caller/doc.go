// Package caller says which program asks for something: the process, what it executes, its command line, and its
// parents up to the command. It also lists what runs below a process.
//
// All of it is the workload's to choose, but for the numbers and the executed file: a process gives itself any name and
// rewrites its arguments. So it is for people, never for a decision; each text is bounded and printable (fsbridge/printable).
//
// Arguments are read from the process's memory. A process can make that wait for ever (its stack may be a file of a
// FUSE server of its own), so they are read by a goroutine that is waited for only a moment, and few of these may be
// stuck at a time. A process that asks stands still meanwhile; its parents may end, and then they are left out.
// A [Reader] locks nothing that others need, and is safe for concurrent use.
package caller
