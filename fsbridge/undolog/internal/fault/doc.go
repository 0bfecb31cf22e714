// Package fault gives tests a place to hurt the undo log: it kills the process
// or fails an operation at a named point.
//
// A program that is built without the tag "faults" has none of it: [Point] and
// [Check] do nothing and cost nothing. With the tag, the environment variable
// SANDBOX_FAULT arms one point.
//
// The names of the points, and the order in which an operation passes them, are
// a contract with the tests: they count the points to kill the log at each of
// them. So every operation passes them in the same order each time; what runs
// ahead on another goroutine ([WorkAhead]) does not run ahead with the tag.
package fault
