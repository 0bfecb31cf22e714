//go:build !embedguest

package guestbin

// Embedded is empty in a build without the embedded guest program: this
// program is then executed again in its place.
func Embedded() []byte { return nil }
