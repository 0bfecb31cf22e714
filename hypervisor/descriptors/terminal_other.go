//go:build !unix

package descriptors

// HasTerminal says no.
func HasTerminal() bool { return false }
