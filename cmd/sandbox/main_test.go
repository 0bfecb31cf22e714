package main

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/codeagent/sandbox/guest/inner"
)

// helperVariable makes the test program be another program.
const helperVariable = "SANDBOX_TEST_HELPER"

func TestMain(m *testing.M) {
	if inner.Invoked(os.Args) {
		os.Exit(inner.Main(os.Args))
	}
	sandbox := func() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
	switch os.Getenv(helperVariable) {
	case "sandbox":
		sandbox()
	case "terminal":
		os.Exit(terminalHelper(os.Args[1:]))
	}
	testscript.Main(m, map[string]func(){
		"sandbox": sandbox,
		"exits":   func() { os.Exit(exits(os.Args)) },
	})
}

// helper is a command that runs this test program as something else.
func helper(t *testing.T, as string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), helperVariable+"="+as, "TERM=xterm")
	return cmd
}
