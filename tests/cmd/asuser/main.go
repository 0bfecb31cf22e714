package main

import (
	"fmt"
	"os"

	"github.com/codeagent/sandbox/tests/cmd/asuser/user"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: asuser PROGRAM [ARGUMENT...]")
		os.Exit(2)
	}
	code, err := user.Run(os.Args[1], os.Args[2:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "asuser:", err)
		code = 125
	}
	os.Exit(code)
}
