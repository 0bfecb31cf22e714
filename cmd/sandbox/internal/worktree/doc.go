// Package worktree finds the git directory of a folder whose .git is a file: a linked worktree
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
package worktree
