// Package inside holds tests that run as root in a guest, on a working folder
// that is mounted there: go-fuse's POSIX tests, and attacks on the host. They
// are behind the tag inguest; tests/suite/vm builds them into a program and runs it
// there.
package inside
