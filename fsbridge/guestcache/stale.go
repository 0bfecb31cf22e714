package guestcache

// Stale is what a guest's caches must forget.
type Stale struct {
	// All: everything. Paths is empty then.
	All bool
	// Paths are relative to the root of the folder, "." for itself: names that
	// may lead elsewhere, and files whose content or attributes changed.
	Paths []string
}
