// Package winprobe asks Windows for the primitives on which the Windows host of the bridge and of the undo log is built, one by
// one. On a real Windows all of them are there. On wine those that stand in one list are not; one of these that is there is an
// error, too: so the list only shrinks.
//
//	GOOS=windows go test -exec /tmp/wine ./tests/suite/winprobe   # tests/cmd/wine
package winprobe
