// Package posixmeta is to let a file system that is not POSIX (NTFS) hold a folder
// of which a Linux guest believes that it is: names that Windows refuses, names that differ
// only in case, and modes, owners and symlinks, which are kept beside the
// folder. Nothing in it asks for Windows: it is tested on every host.
//
// No bridge uses it yet: it belongs into the tree, between an operation's Begin
// and End, so that a change of metadata is part of the step that is open then.
//
// # Names
//
// [CheckName] says what Windows would not take, or would take for something
// else: reserved characters and device names, a dot or space at the end. Under
// [Escape] such a name is stored under another, as WSL and Cygwin do, with
// characters from the private use area; [Unescape] is its exact inverse. What Windows
// programs made themselves and no guest name leads to is not shown.
//
// [Index] finds names that a case-insensitive directory takes for one: the
// second is refused and never clobbers the first. Where it is not known how the file
// system folds a character, it counts as the same: refusing too much loses
// nothing.
//
// # Metadata
//
// [Store] maps a path, relative to the folder, "/"-separated, to an [Entry] in a bbolt
// file outside the folder. What has none gets a default ([DefaultMode]). It follows renames
// and removals, as it is told them.
//
// A step (see fsbridge/undolog) undoes metadata, too: each change notes, at the first touch
// in the open step, what was there, in the transaction of the change itself. So
// Undo is "set to what was noted", with the inverse noted for Redo, whatever
// happened to the paths.
//
// # Crashes
//
// A killed process loses nothing: bbolt's pages are written before a call
// returns. For power loss too, set [Options.Sync], at a price of an fsync per
// change; else it happens when a step ends.
package posixmeta
