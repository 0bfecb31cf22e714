package main

import (
	"context"
	"os"

	"github.com/codeagent/sandbox/guest/inner"
)

func main() {
	if inner.Invoked(os.Args) { // as the program inside a jail, where none is embedded
		os.Exit(inner.Main(os.Args))
	}
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
