//go:build !unix

package launch

// sameOwner has nothing to compare where files have no uid.
func sameOwner(_, _ string) error { return nil }
