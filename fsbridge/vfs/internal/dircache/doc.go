// Package dircache keeps the descriptors of directories open, up to a bound, so that a
// request need not walk from the root. Whoever uses one has it pinned. That a
// directory is still where its names say is checked again once in each epoch, and
// whenever somebody behind our back may have moved directories.
//
// A directory is opened from the nearest one above it that is open and was checked. On a long way some are kept, and kept
// longer than others, so that the work in a chain of directories does not grow with the square of its depth.
//
// It trusts its [Tree] to open what it says, or to fail.
//
// # Locks
//
// Cache.mu and Dir.mu, never both. Neither is held while a directory is walked to.
package dircache
