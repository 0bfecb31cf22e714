// Tally counts tests over several commands, for tests/run.sh.
//
//	go test -json ./... | tally -state DIR -pass root [-allow-skip REGEXP] tests
//	tally -state DIR check NAME COMMAND [ARGUMENT...]
//	tally -state DIR sum
//
// "tests" reads what go test -json writes, prints a line for each package and
// the output of what failed, and adds its counts to DIR. "check" runs a
// command that is one test by itself (a linter, a build) and prints its output
// if it fails. "sum" prints the twenty slowest packages and tests of each pass, what
// failed once more, and as its last line the counts: "N passed, N failed". tests
// and check exit with 0 whatever failed, so that the rest is run too; sum exits
// with 1 if anything did, or nothing passed.
//
// A test with subtests counts as its subtests, and by itself only if it failed
// and none of them did. A package that fails without a failed test (it did not
// build, it panicked, time was up) counts as one failure, and each test that
// never ended as another. In CI (CI=true) a skip counts as a failure, unless its
// reason says that the test runs in the other pass or with another commit (package require), or matches
// -allow-skip (for tests of other modules that skip by themselves).
//
// Several calls may count at a time.
//
// A failure is a failure: nothing is run once more.
package main
