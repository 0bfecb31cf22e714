// Soak uses one session for as long as it is told: commands at the same time (builds, git, archives, a
// database, removals), then undo and redo, and each time it compares the whole tree with the one that was there.
//
//	make soak MINUTES=30
//
// It is no part of make test. At the end it undoes everything, says what it did and how much memory the session
// takes, and its exit status is 1 if a tree was not what it should be.
package main
