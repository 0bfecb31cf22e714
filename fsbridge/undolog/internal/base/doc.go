// Package base holds the words that all packages of the undo log share: what a
// step, a history entry and a barrier are, the limits, the policies and the
// errors that a caller tests for.
//
// The package undolog gives them to its callers under the same names. Nothing
// here does anything, so nothing is locked; all values may be copied.
package base
