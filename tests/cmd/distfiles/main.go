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
	switch {
	case len(args) == 2 && args[0] == "licences":
		return writeLicences(args[1])
	case len(args) == 2 && args[0] == "sources":
		return writeSources(args[1])
	case len(args) == 3 && args[0] == "release":
		return writeRelease(args[1], args[2])
	}
	return errors.New("say licences DIR, sources IMAGES, or release DIST IMAGES")
}
