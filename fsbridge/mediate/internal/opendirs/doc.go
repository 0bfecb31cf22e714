// Package opendirs keeps some directories of a mount open, by their inodes, so that what is in
// them can be opened without a walk.
//
// A directory that is open may have been moved or removed meanwhile: whoever opens something in it
// compares what that is.
//
// Locks: Cache.mu, a leaf.
//
// [Nameless] is for the files of a mount that no directory leads to.
package opendirs
