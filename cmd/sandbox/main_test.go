package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/codeagent/sandbox/guest/inner"
	"github.com/codeagent/sandbox/tests/kit/screen"
)

func TestMain(m *testing.M) {
	if inner.Invoked(os.Args) {
		os.Exit(inner.Main(os.Args))
	}
	sandbox := program
	if os.Getenv(screen.HelperVariable) == "sandbox" {
		sandbox()
	}
	testscript.Main(m, map[string]func(){
		"sandbox": sandbox,
		"exits":   func() { os.Exit(exits(os.Args)) },
	})
}
