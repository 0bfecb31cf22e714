//go:build !linux

package treesnap

import "errors"

// Take is for Linux so far.
func Take(string) (*Snapshot, error) { return nil, errors.ErrUnsupported }

// MustTake is Take, which fails the test on error.
func MustTake(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, root string) *Snapshot {
	t.Helper()
	t.Fatalf("snapshot of %s: %v", root, errors.ErrUnsupported)
	return nil
}
