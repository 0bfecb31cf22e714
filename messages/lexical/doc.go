// Package lexical says how two paths lie to each other: [Within] (the directory,
// or something in it), [Below] (something in it) and [Rel] (the way from the
// one to the other).
//
//	lexical.Within("/a/b", "/a") // true
//	lexical.Within("/ab", "/a")  // false
//
// Only the text counts: nothing is looked up, and a symlink may lead elsewhere.
// Whoever must know where a path really leads resolves it first, or asks the
// file system, as Overlap of actors/directory does, and as a bridge must.
//
// Every room may use this package; it uses none. cmd/sandbox/internal/shortcut
// has a comparison of its own, because it is initialised before path/filepath.
package lexical
