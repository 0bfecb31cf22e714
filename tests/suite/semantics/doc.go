// Package semantics runs the checks of tests/cmd/fsemantics natively and inside, over each
// bridge. What they print must be identical, apart from a short list of differences, each with its
// reason. A difference that is no longer there fails the test, too. One undo must then
// bring back the empty folder. It also runs git, sqlite3, vim, rsync, tar, make, node and python3,
// and undoes and redoes what each does.
package semantics
