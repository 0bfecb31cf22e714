package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/codeagent/sandbox/tests/kit/wine/outside"
)

func main() {
	status, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "outside:", err)
		status = 127
	}
	os.Exit(status)
}

func run() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	b, err := os.ReadFile(self + ".json")
	if err != nil {
		return 0, err
	}
	var server outside.Address
	if err := json.Unmarshal(b, &server); err != nil {
		return 0, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	return server.Run(dir, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
