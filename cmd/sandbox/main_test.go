package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/codeagent/sandbox/guest/inner"
	"github.com/codeagent/sandbox/hypervisor/inherit"
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
	if strings.HasSuffix(os.Args[0], ".test") { // no program under test gets what whoever runs the tests has open
		inherit.KeepDescriptors(inherit.PassedDescriptors())
	}
	testscript.Main(m, map[string]func(){
		"sandbox": sandbox,
		"exits":   func() { os.Exit(exits(os.Args)) },
	})
}
