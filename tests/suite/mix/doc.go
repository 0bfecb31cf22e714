// Package mix lets random commands change a folder in sessions of the real program, and goes back and forth among the states that they
// have left: by undo, redo and restore, with gc, looks and kills in between. Each time the whole tree is what it was then, to the
// nanosecond, with all attributes and flags.
//
// make test has a few short histories, always the same ones; make soak has others, for MINUTES on each kind of file system. What a history does
// follows from its seed alone, save for the moment of a kill:
//
//	go test ./tests/suite/mix -run TestMix -args -fs xfs -bridge fuse -seed 7 -rounds 40
//	go test ./tests/suite/mix -run TestMix -args -for 30m
//
// A history that fails is tried again without a part of it, and without a part of what its commands do, as long as it fails (at most for the time
// that -shrink says). The smallest one is printed, with what each command did.
//
// The commands are this test binary ("mutate"). It works below its working directory: a symlink that it makes leads nowhere else.
package mix
