//go:build !linux || !(amd64 || arm64)

package inner

import (
	"fmt"
	"os"
)

// Invoked reports whether a program was started as one of the stages of a
// guest; never, on this system.
func Invoked([]string) bool { return false }

// Main says that guests are Linux.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "sandbox-guest runs inside a Linux guest only (amd64, arm64)")
	return 1
}
