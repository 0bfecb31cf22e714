// Package promote mounts directories that a gate (package fsbridge/gate) has opened, while their jail runs: from then on what is in them
// is looked at without the gate, at native speed.
//
// # How
//
// A short-lived process, a script of system calls (package script), enters the user and the mount namespace of the jail's PID 1, as only who has made them
// may, clones the directory and moves the clone onto the name in the gate. The processes inside cannot see it: it is in no process namespace of
// theirs. It has one thread, without which nobody may enter a user namespace, and is gone before [Gate.Mount] returns.
//
// # What is mounted
//
// The directory that a person was asked about, and no path: before it covered the directory of the gate, PID 1 has opened it as the jail's
// namespace has it ([Jail.Gate]). The name is looked up below that, without symlinks, and must be the very file that was looked at; by its descriptor it is
// cloned. So it has what the whole view has: read-only, nosuid, nodev, and the mounts of the host that were there when the jail began. The target is looked up through the gate, which
// answers this process at once or not at all; if something is mounted there already, nothing happens.
//
// A mount goes when the gate tells the kernel that the name is another one, or is refused: the gate is asked again for a name after
// a second at most. What a program has open, and its working directory, stay as they are.
package promote
