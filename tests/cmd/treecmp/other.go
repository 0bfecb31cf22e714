//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "treecmp: only on Linux")
	os.Exit(2)
}
