//go:build !embedguest

package launch

// EmbeddedGuest is empty in a build without the embedded guest program: this
// program is then executed again in its place.
func EmbeddedGuest() []byte { return nil }
