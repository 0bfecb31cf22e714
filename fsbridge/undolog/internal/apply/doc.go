// Package apply makes the folder what one layer says, and keeps what it replaces.
//
// An [Engine] is used once, in this order: [New]; Decide, which finds every object by the
// actual state and plans; Create, WriteInverse and Keep, which write down how to undo all this
// (or Reopen, after an interruption); Run; Close. Run has five phases: detach what is in the
// way, make what is missing, attach, contents, metadata.
//
// Invariants:
//   - Before Begun is set nothing is changed in the folder, except that an ordinary user
//     lends themselves rights on what is closed to them. Each such mode is first written down:
//     see below.
//   - What the folder refuses is left as it is, by name, and the rest is done: [Engine.Left]. An error of Run says that
//     it was interrupted, and not that some path could not be put back. A binding that is left leaves what hangs on it: the
//     object that it lacks stays where it is, and what is in its place keeps its name.
//   - Nothing is removed. What occupies a name goes into the hold, the blobs of the inverse.
//   - Whatever Run does, it can do again: it starts from what there is. So a kill at any
//     instant is finished by a new engine that reopens the same inverse.
//   - A new inode number is in the file "made" before the inode is seen under its name.
//   - If the log survives power failures, nothing goes from the folder or the log before what
//     takes its place is on the disk.
//
// # Modes that are lent
//
// An ordinary user has to give themselves rights on what is closed to them. Each such change
// is first a line of the file "lent" in the directory that is prepared,
// JSON {"dev","ino","mode","log","path"}: the inode, the mode that it has, and its path
// (base64), which begins at the undo directory if log is true. Who finds the file there gives
// the modes back, the last line first. Once the apply has begun, modes are put right with all else.
//
// # Names in the hold
//
// The hold is inverse/blobs/. What occupies a binding and should not is renamed into it, under
// the number of its object, or "x<n>" if that is taken. What is missing is renamed from the
// layer's blobs, linked, or made in the hold as m<obj> and renamed. A file with one name is
// linked instead, and loses its name in the blobs at once. After a kill in between it is where it
// should be, and its other name goes with the layer's directory, or when the apply goes on.
// Objects are found by number under the touched bindings, by name under untouched ones, and in
// blobs. A directory that is nowhere is looked for in the whole folder: somebody outside has moved it, and it stays where it is. A directory's metadata is put right by a follower when all is in it; or last, the
// deepest first, if its mode stands in the way of what is below or it has attributes.
//
// # Another file system
//
// If the undo directory is on another file system than the folder, or in another mount, nothing
// can be renamed between the two. What only changes its place in the folder is kept in the
// folder's root as ".undo-<obj>" meanwhile. The rest is copied.
//
//   - What leaves the folder is captured before anything is changed: Keep copies it to its
//     name in the hold and notes the numbers in "made". If that fails, as on a full disk, nothing
//     has happened. Run removes the originals. What was written to in between, or is new, is
//     copied once more, to an "x<n>".
//   - An apply without an inverse (of the open step, if there is no room) needs no copy: it
//     sets Forget, and what is in the way is removed.
//   - What Keep could not know of (a mount inside the folder, a name that was taken just now) is
//     copied when it is met: as "t<name>" until it is complete. Then it is noted, and the
//     original is removed.
//   - What comes back is ".undo-new-<obj>" in its directory until it is complete.
//
// A copy of a file that has other names in the folder becomes a name of it again. As long as both a
// noted copy and its original are there, the original counts.
//
// # Followers
//
// Followers are goroutines that link files into directories that are done, put the
// directories' metadata right, and look at what is there for the stamps. They use only what
// no longer changes.
//
// The engine knows the log around it by its [Env] alone. It trusts the layer's shape, which
// was checked when it was read, and nothing in the folder: names are opened relative to
// directory descriptors, and no symlink is followed.
package apply
