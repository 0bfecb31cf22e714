package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "distfiles:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("say licences DIR, or release DIST")
	}
	switch args[0] {
	case "licences":
		return writeLicences(args[1])
	case "release":
		return writeRelease(args[1])
	}
	return fmt.Errorf("unknown: %q", args[0])
}
