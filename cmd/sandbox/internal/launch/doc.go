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
//
// # The git directory
//
// This part finds the git directory of a folder whose .git is a file: a linked worktree
// or a submodule. That directory lies elsewhere, and git writes there with every commit.
//
// What runs inside of a sandbox can write the .git file, so what it names is believed only if
// the other side says the same: the repository has an entry for a worktree whose gitdir file
// names this .git file, or the configuration of the submodule names this folder. The program
// inside cannot write these, because it cannot write outside of its folders. A directory that
// it can write already could be named in a wrong way too; so the repository that an entry
// belongs to is the one that the entry lies in, whatever the entry says, and symlinks are
// resolved before anything is compared. Sizes are bounded, and only regular files are read.
//
// Functions look and change nothing. They are safe for concurrent use.
//
// # Around the serving process
//
// This part puts around the process that serves sessions what keeps it from doing harm if a guest takes it over: it gives up rights before anything is probed ([Restrain]), and once a session
// runs it goes beneath a filter of system calls and, if it serves a machine and nothing else, behind rules of Landlock ([Walls]). The means are those of hypervisor/filters and hypervisor/filters; here is when, and for which isolation. A process of its own, which stays before the rules, does the little that they refuse and a session needs ([Scout]).
//
// Nothing of this can be taken off again, and what the process starts inherits it. So a session is refused here if what an earlier one of the same process has put up is in its way.
//
// # Notifications
//
// This part tells a person on the desktop that something waits for a decision, once for all questions that come
// together, with the notify-send that is installed.
//
// What always holds: the session never waits for it; what a program inside has chosen reaches the desktop as plain text,
// without markup and escapes; and nothing is executed that a program inside could have put there.
//
// # The guest program
//
// This part holds the guest program (cmd/sandbox-guest) within this one,
// where the build has put it there: 'make build' does, with the tag embedguest.
// In a build without it, a jail executes this program in its place.
//
// # Overlays
//
// This part has the commands of 'sandbox overlay': they show what commands in jails have written to
// caches and other overlays, put it into the host's directories, or throw it away. What they show was written
// by hostile programs: names are printed quoted, and package places guards the rest.
//
// They are for one goroutine.
//
// # Within a sandbox
//
// This part is `sandbox run` within a sandbox: it makes no second one. The
// session outside opens a step, the command runs as a child of this process, and the
// step ends with it. The session is asked at the socket that
// [hypervisor.StepsVariable] names; nothing but that can be asked there.
package launch
