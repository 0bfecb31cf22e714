// Package jail is the isolation runtime that needs nothing but a Linux kernel
// (5.12 or newer) and /dev/fuse: namespaces, a mount view, no capabilities and a
// seccomp filter. With a mediated bridge it needs Linux 6.6 or newer, and no FUSE.
//
// What it makes can be looked at from inside:
//
//	$ sandbox run -- sh -c 'touch /etc/x; ls ~/.ssh; ps ax'
//
// The touch fails (a read-only file system), .ssh is not there, and ps shows the jail's processes alone.
//
// # What is inside
//
// The host's tree at its usual paths, read-only; the working folders through
// the bridges, read-write; /proc, /dev, /tmp, /var/tmp and /run of its own; a
// loopback interface of its own; nothing of the host's processes. Well-known
// secrets are covered (secrets.go), as are sockets that somebody outside listens on
// when the jail starts (found by their inodes: sockets_linux.go), and what [hypervisor.Config] names, also
// under other paths by which the same directory can be reached (other mounts of
// one file system). Inside a working folder its bridge refuses them
// ([hypervisor.Transport]): a mount there would go when the bridge makes the
// kernel forget the name below.
//
// Covers come last, over everything that the view has made there before. Before PID 1 becomes the shim it tries what must fail
// then ([promise]): it opens what is hidden and what is read-only with the rights of a command. What does not fail ends the start.
//
// Elsewhere a cover lies on the file that was there at the start. What somebody
// outside makes or replaces while the jail runs (a login that writes a new
// ~/.netrc, a service that binds its socket again) can be read, or connected to,
// from inside. From Linux 7.1 on, Landlock refuses the connection.
//
// # With a network
//
// PID 1 makes a TAP device in its network namespace, gives it its addresses and routes,
// and hands its descriptor to the supervisor (package network), where package network
// serves it. Its loopback stays its own; a resolv.conf of ours lies over the host's.
// Inside nobody can change any of that.
//
// Connections to a port inside ([hypervisor.Dialer]) need none of this: PID 1 makes them
// on the jail's loopback, and hands them over.
//
// In a pod ([hypervisor.Config.InPod]) there is none of that: the guest is born in the supervisor's network namespace, whose owner gives nobody inside a right. The filter sends connections to the
// bridge, and Landlock refuses what does not pass it (shared_linux.go).
//
// # With a mediated bridge
//
// The folders are the host's own then (package fsbridge/mediate), each a read-only mount
// of its own, so that the number of the mount tells what lies in it. What is hidden in
// them is covered as elsewhere, and their bridge refuses to change it. The filter sends
// the calls that could change something to a listener. PID 1 hands that to the supervisor
// before it becomes the shim, and keeps none. The supervisor opens the guest's root and the folders
// below it, and has them answered: also the shim's calls, which wait until then.
//
// Started as root, the workload has another number than the folders' owner, root. Each
// folder is then a mount in which the two change places. Only the host's root can make
// that, so the supervisor does and PID 1 attaches it. Where that cannot be had (another
// owner, a file system without such mounts) there is no mediated bridge, and neither is
// there where a probe finds that the kernel lacks something ([Runtime.Mediates]).
//
// # Landlock
//
// Where the kernel has Landlock, PID 1 restricts itself and all that it starts, over each bridge: files are opened
// for writing, made, renamed and removed below the working folders and the guest's own places alone. A read-only
// mount does not keep anybody from writing to a FIFO, nor from opening a descriptor again that was
// given from outside. From version 6 on, signals and connections to abstract sockets stay inside, too. A rule holds for all that lies
// below, also for what is mounted there read-only, so only its mount protects that. With
// [hypervisor.Config]'s Containers there is no Landlock, because nobody can mount behind it.
//
// # Who is inside
//
// Never root. Started as root, the workload gets the uid of the user who called
// sudo, else [AnonymousUID], which owns nothing; a home directory that it may not
// search is replaced by an empty one. Otherwise it has the user's own uid.
// Either way the ids are mapped to themselves, so requests at a bridge carry the
// numbers that the host knows.
//
// # How it is made
//
// The supervisor makes a process in new namespaces and, while the kernel does
// that, works out the view as a script of system calls, in memory that both
// share. The process, which is PID 1 of the jail, runs the script between fork and
// exec, as vfork's child does in the supervisor's memory, and nothing else: it
//
//   - mounts one FUSE for each folder and sends the descriptors to the
//     supervisor, which serves them,
//   - makes the rest of the view read-only, mounts a /proc of its own, hides what
//     the plan names, and brings lo up. Nothing is ever mounted in the host's
//     namespace,
//   - becomes the workload's user, never root, empties every capability set,
//     sets no_new_privs and loads the seccomp filter,
//   - executes sandbox-guest, from a memfd, which takes commands (guest/control).
//
// No program has to start in between: one in Go would take as long to start as all of
// the above. When a command ends, PID 1 says whether that was the last process
// inside. This is believed: nobody inside can trace PID 1 or hold its channel, and if it
// lied, a late write would only be recorded in another step. PID 1 dies with the
// supervisor, and everything inside with it.
// All mounts are in its namespace only: nothing can be left behind.
//
// # What it costs
//
// A call that does nothing costs a little more than natively, an open somewhat more: docs/performance.md has the figures. A set of Landlock's rules that decides about cutting off a file makes each
// open dearer, also one for reading. So beside the mediated bridge the rules do not decide about it (landlock_linux.go); beside FUSE they do.
//
// # The account
//
// This part works out whose rights the commands of a jail get, and what the mode bits of the
// host's files give them. Save for [Lend] it only looks, and it has no state.
//
// # What is made ahead
//
// This part makes what a jail needs whatever its configuration says: the guest's program in a memfd, what the kernel
// lets a mediated bridge do, and the user namespace of the folders' mounts.
//
// None of it depends on the log or on the view, and each takes as long as a tenth of a whole start. So it is made beside what
// the program does first ([Preparation.Begin]). Each part is made once and then kept; an error is kept, too, and said to whom needs the
// part. Nothing of it is visible to anybody else.
//
// # Processes inside, seen from outside
//
// This part looks at the processes of a pid namespace from outside: whether the first has children, how
// many there are, and which numbers they have here. It locks one mutex, and trusts the kernel
// alone: names and numbers in /proc are the kernel's, and a process may end meanwhile. On other systems than Linux it is empty.
//
// # Devices
//
// This part finds the devices of the host that somebody wants in a jail (--device), and refuses those by which the jail would be none.
//
// What a device does when it is asked is its driver's: no view and no undo log is between. So a disk, the machine's memory, and what the
// user types are refused unless they are named twice, and terminals always.
//
// # A jail that asks
//
// This part chooses what a jail that asks shows from the start, and what a person has to
// allow first.
//
// From the start it shows what belongs to the system (/usr, /etc and their like), tool chains (what PATH
// and variables such as JAVA_HOME name, and where version managers keep what they install), and settings of
// shells, git and editors, as far as they hold no secrets. Everything else of the host lies behind gates (package
// fsbridge/gate): /home, /opt, /srv, /var, the home directory and each other directory of the root. What a session adds
// itself, its working folders, caches and places, is mounted on top by the jail.
//
// The package only looks at the host, and has no state. It does not follow what changes later: a directory that
// appears in the root directory during the session is seen, since the gates are already made; only root can make one.
//
// # Engines for containers
//
// This part has what engines for containers (podman, buildah) are given in a jail, where there is one user
// id and no control group of their own: configuration files, programs that stand in front of the real ones, and the variables that lead
// to both. It is text only: the jail puts the files in place.
//
// # What this machine can do
//
// This part finds out what this machine lets a jail do: its kernel, its settings, its devices.
// It says in words for people what to change.
//
// # Maps of user namespaces
//
// This part reads and writes the maps of user namespaces (uid_map, gid_map). It trusts what
// the kernel writes, and has no state.
//
// # Limits
//
// This part keeps what everything inside a jail takes within [hypervisor.Limits].
//
// The number of processes and the size of files are limited by POSIX limits, which the first process of the jail
// hands down: they need no rights and are always there. A jail has a user namespace of its own, so that its
// processes are counted apart from the user's others (Linux 5.14 and newer). Memory, processor time and disks need control groups
// (package hypervisor/cgroup). If there are none, memory is limited for each process by itself (RLIMIT_DATA), and a warning
// says so. The kernel does not tell that it has refused a process: they are counted once a second while commands run,
// if the whole machine has as many as the limit, and at a command's end.
//
// A [limitKeeper] is safe for concurrent use once it is made. What is inside can neither change the groups nor
// raise a limit. It trusts the kernel.
//
// # Mounting what a gate has opened
//
// This part mounts directories that a gate (package fsbridge/gate) has opened, while their jail runs: from then on what is in them
// is looked at without the gate, at native speed.
//
// How:
//
// A short-lived process, a script of system calls (package script), enters the user and the mount namespace of the jail's PID 1, as only who has made them
// may, clones the directory and moves the clone onto the name in the gate. The processes inside cannot see it: it is in no process namespace of
// theirs. It has one thread, without which nobody may enter a user namespace, and is gone before [promoteGate.Mount] returns.
//
// What is mounted:
//
// The directory that a person was asked about, and no path: before it covered the directory of the gate, PID 1 has opened it as the jail's
// namespace has it ([promotedJail.Gate]). The name is looked up below that, without symlinks, and must be the very file that was looked at; by its descriptor it is
// cloned. So it has what the whole view has: read-only, nosuid, nodev, and the mounts of the host that were there when the jail began. The target is looked up through the gate, which
// answers this process at once or not at all; if something is mounted there already, nothing happens.
//
// A mount goes when the gate tells the kernel that the name is another one, or is refused: the gate is asked again for a name after
// a second at most. What a program has open, and its working directory, stay as they are.
package jail
