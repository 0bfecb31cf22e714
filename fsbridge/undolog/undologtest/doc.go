// Package undologtest plays the bridge in tests of the undo log: an [Applier]
// performs operations on a folder by path, asking the log before each one and
// reporting after it, with the same objects, guards and descriptors that a
// real bridge uses. It decides nothing: no safeguards, no holds.
//
// Methods may be called concurrently; operations that race by name have the
// outcome that the host gives them.
package undologtest
