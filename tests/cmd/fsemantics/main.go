package main

import (
	"fmt"
	"os"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == check.Word {
		os.Exit(check.Main(os.Args[2:], os.Stdout))
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: fsemantics DIRECTORY")
		os.Exit(2)
	}
	os.Exit(check.Main([]string{"all", os.Args[1]}, os.Stdout))
}
