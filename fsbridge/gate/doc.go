// Package gate holds the first look at what nobody has allowed yet, until a person has decided.
//
// # What it is
//
// A [Gate] stands for one directory of the host, in a jail: a read-only file system that [Gate.Serve]
// answers. Its root is empty at first. A name in it that is there on the host is a
// question: the lookup, and with it the stat, open or exec that needs it, waits for the answer. Yes
// opens the name and everything below it for the rest of the session, or until it stands no more ([Options].Stands). No means EACCES, now and later. If nobody could
// answer, the lookup fails with EACCES, this time only. A name that is not there on the host is ENOENT without a question, so a
// program that tries many places asks about few.
//
// Working folders and other mounts below the directory are passages: the directories on the way
// to them can be searched without a question, but their other names are questions, as
// those of the root are. So a question is about the highest name that is not allowed: /opt/sdk, and not each
// of its files. A listing of the root, or of a passage, shows passages and what was allowed. A passage
// is one node for good, whatever the host makes of its name: if the kernel were told of another one it would
// drop what is mounted below.
//
// What the view shows from the start ([Mount].Open) is no question. Below an overlay ([Mount].Lower) a name is not one either: what is in it, or in
// the file, is held instead, since the kernel locks the whole directory while an overlay looks up a name. If the host gives
// such a name to another file, the node stays the same and stands for the other file as soon as nobody has it open: for the overlay, a new node would be stale for good.
//
// # Why it holds
//
// A gate guards objects and checks no paths. What was looked up is an open descriptor (O_PATH). The
// next lookup is relative to it, without symlinks, and a file is opened through it. So no race changes
// what a name means between question and use. Links are resolved by the
// workload's kernel in the workload's view, so where they lead is looked up again. What is hidden is refused without a question,
// whatever name it has (a hard link, too).
//
// # Mounts
//
// A directory that is allowed is mounted over its name by [Mount].Promote, while the lookup is answered, and its contents are no requests
// any more. The name still is, a second after the last at most: if it has become another file, or is refused, the kernel is told so, and drops
// the mount by itself. So nobody has to take a mount away. Not mounted are directories in which something hidden could be seen, and those below an overlay. Whoever
// mounts looks the name up through the gate from outside of the mount's process namespace, and is answered at once: it is held by nothing.
//
// # Beside a mediated bridge
//
// Who answers the system calls of a mediated bridge is outside, in another user namespace than the mount's. The kernel lets it through
// no gate: it is refused (EACCES) before a request is made, so none is held, and no name is told. Below an overlay the kernel looks up in
// the overlay's name; such a request has no process number here, and is answered at once or refused (with ENOMEM below an
// overlay: any other error would make the kernel drop the name, for the overlay, too).
//
// # Questions
//
// Lookups of the same name wait for one question. At most [MaxQuestions] wait at once; one more is
// denied, as if nobody could answer. Each held lookup costs a goroutine and what the kernel needs. If the
// waiting process is killed, the kernel says so and the lookup ends; with the last that waits the
// question is withdrawn.
//
// Whoever serves a gate must not open files in its mount with package os: the runtime's poller would wait
// for an answer of the process that it holds up. In a jail's mount namespace nobody outside can.
//
// # Trust
//
// Names come from the workload and from the host's directories: whoever shows a [Question] uses its
// String, in which nothing acts on a terminal. [Gate] is safe for concurrent use. Gate.mu is held while nothing
// else is called.
//
// # Who asks
//
// This part says which program asks for something: the process, what it executes, its command line, and its
// parents up to the command. It also lists what runs below a process.
//
// All of it is the workload's to choose, but for the numbers and the executed file: a process gives itself any name and
// rewrites its arguments. So it is for people, never for a decision; each text is bounded and printable (fsbridge/texts).
//
// Arguments are read from the process's memory. A process can make that wait for ever (its stack may be a file of a
// FUSE server of its own), so they are read by a goroutine that is waited for only a moment, and few of these may be
// stuck at a time. A process that asks stands still meanwhile; its parents may end, and then they are left out.
// A [ProcessReader] locks nothing that others need, and is safe for concurrent use.
package gate
