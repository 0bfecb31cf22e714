// Package dircache keeps the descriptors of directories open, up to a bound, so that a
// request need not walk from the root. Whoever uses one has it pinned. That a
// directory is still where its names say is checked again once in each epoch, and
// whenever somebody behind our back may have moved directories.
//
// It trusts the walk that it is given to open what it says, or to fail.
//
// # Locks
//
// Cache.mu and Dir.mu, never both. Neither is held while a directory is walked to.
package dircache
