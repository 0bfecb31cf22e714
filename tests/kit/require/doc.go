// Package require lets a test say what it needs from the machine. Where that
// is missing the test is skipped with a reason that says how to get it; in CI
// (CI=true), which is meant to run everything, it fails instead.
//
// CI runs the tests of the bridge, the jail and the program twice: as root and,
// by tests/cmd/asuser, as an ordinary user. What belongs to the other pass is
// skipped without being a failure: such a reason starts with [OtherPass].
package require
