// Package filesystems goes through a battery of changes on each kind of file system that people have, and
// takes them back: with the log beside the folder and on another file system, packed and not, as root and as an
// ordinary user. After undo, redo and undo the folder is exactly what it was: whatever
// that file system could hold, which docs/filesystems.md says.
package filesystems
