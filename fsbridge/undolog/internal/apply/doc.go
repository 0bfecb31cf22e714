// Package apply makes the folder what one layer says, and keeps what it replaces.
//
// An [Engine] is used once, in this order: [New]; Decide, which finds every object by the
// actual state and plans; Create and WriteInverse, which write down how to undo all this
// (or Reopen, after an interruption); Run; Close. Run has five phases: detach what is in the
// way, make what is missing, attach, contents, metadata.
//
// Invariants:
//   - Before Begun is set nothing is changed in the folder, except that an ordinary user
//     lends themselves rights on what is closed to them. Each such mode is first written down:
//     see lender.
//   - Nothing is removed. What occupies a name goes into the hold, the blobs of the inverse.
//   - Whatever Run does, it can do again: it starts from what there is. So a kill at any
//     instant is finished by a new engine that reopens the same inverse.
//   - A new inode number is in the file "made" before the inode is seen under its name.
//
// Followers are goroutines that link files into directories that are done, put the
// directories' metadata right, and look at what is there for the stamps. They use only what
// no longer changes.
//
// The engine knows the log around it by its [Env] alone. It trusts the layer's shape, which
// was checked when it was read, and nothing in the folder: names are opened relative to
// directory descriptors, and no symlink is followed.
package apply
