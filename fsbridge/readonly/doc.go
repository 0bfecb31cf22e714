// Package readonly keeps other processes from writing to a folder, for the barrier policy "lock": a read-only copy of the folder's own mount is mounted over it.
//
// Who opens a path below the folder from then on gets EROFS for each change. What holds the folder itself is not concerned: the descriptor that a session has opened before, and through it
// the bridges and the undo log. Nor is what others had open before: files, and the folder (or one below it) as a working directory. What they write there is an edit from outside, as with the policy "barrier".
//
// A mount outlives the process that made it. [Cover] therefore writes a record down first, below [Dir], and holds a lock on it (flock) for as long as it lives; the kernel gives the lock up when the process is killed. [Uncover]
// takes off what a killed process has left, and nothing else: the record names the run of the machine and the mount's number.
//
//	cover, err := readonly.Cover(readonly.Dir, "/srv/project")
//	defer cover.TakeOff()
//
// Only root may mount, and only in a mount namespace that belongs to the first user namespace or one of root's own. Elsewhere, and on other systems, the error wraps [errors.ErrUnsupported] and says why.
package readonly

// Dir is where records are: for root alone, and empty when the machine has started.
const Dir = "/run/sandbox-locked"
