//go:build !linux

package check

import (
	"fmt"
	"io"
)

// Word is the first argument of a program that should call [Main] with the others.
const Word = "fsemantics"

// Main is for Linux.
func Main(_ []string, out io.Writer) int {
	fmt.Fprintln(out, "for Linux only")
	return 2
}
