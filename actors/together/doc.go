// Package together undoes and redoes steps as a whole. A command may change several folders that belong together: a
// worktree and its git directory. Each has a log of its own, in which the command is a step with the same number.
// Whoever undoes it in one folder means all of them.
//
// What always holds: which steps are next is decided from the histories, before anything is asked for; then every folder
// that takes part is asked whether it could, and only if none refuses is the first changed. If one fails all the same, those
// before it are taken back. If an undo was interrupted in one of them, the next undo or redo completes it there first, and
// does the rest in the others. There are no locks here: who calls holds what keeps others from the folders, where there is
// such a thing.
package together
