package screen

import (
	"os"
	"os/exec"
	"testing"
)

// HelperVariable tells a test program, in its TestMain, which program it is to be.
const HelperVariable = "SANDBOX_TEST_HELPER"

// Helper is a command that runs this test program as something else.
func Helper(t testing.TB, as string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), HelperVariable+"="+as, "TERM=xterm")
	return cmd
}
