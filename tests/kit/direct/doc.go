// Package direct puts a bridge and an undo log together without actors, jail or
// program: the smallest thing in which a real kernel's requests are captured
// and undone. Tests use it to tell a fault of the bridge or the log from one of
// what is built upon them, and benchmarks to measure those two alone.
//
// There is no ambient step: mutations outside of a step fail with EROFS.
package direct
