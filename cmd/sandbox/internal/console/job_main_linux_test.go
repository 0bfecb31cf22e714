package console

import (
	"os"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/screen"
)

func TestMain(m *testing.M) {
	if os.Getenv(screen.HelperVariable) == "terminal" {
		os.Exit(terminalHelper(os.Args[1:]))
	}
	os.Exit(m.Run())
}
