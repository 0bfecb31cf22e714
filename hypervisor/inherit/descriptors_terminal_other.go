//go:build !unix

package inherit

// HasTerminal says no.
func HasTerminal() bool { return false }
