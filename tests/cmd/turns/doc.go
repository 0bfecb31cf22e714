// Turns says which tests a pass leaves to the other one, for tests/run.sh, which runs tests as root and as an ordinary user.
//
//	turns [-root] -sample N DIRECTORY...
//
// It prints what go test -skip takes. A test of these packages runs as root or as the user, and as the other one with another commit: N,
// which comes from the commit, says with which. Without -root it prints what the user's pass leaves out, and with it what root's pass
// leaves out, where that does not run all of them. N is "all" if nothing is drawn.
//
// Both passes have a test that asks who runs it (requires an ordinary user, root or KVM, or looks at its user), or whose cases
// have turns of their own (require.Turn), by itself, by a function of its package that it calls, or by one of tests/kit. Root's pass alone has the tests with a tilde in tests/user-pass.txt.
package main
