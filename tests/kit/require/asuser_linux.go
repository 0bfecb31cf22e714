package require

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/codeagent/sandbox/tests/cmd/asuser/user"
)

// AsUser runs the calling test again as an ordinary user, in a process of its
// own (see package user), when this process is root: the test then returns at
// once if AsUser returns false. Where the process is an ordinary user already
// it returns true and the test goes on.
//
//	if !require.AsUser(t) {
//		return
//	}
func AsUser(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	if _, err := exec.LookPath("useradd"); err != nil {
		Missing(t, "useradd", "apt-get install passwd")
	}
	out, err := user.CombinedOutput(os.Args[0], "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v", "-test.count=1")
	t.Logf("as an ordinary user:\n%s", out)
	if err != nil {
		t.Errorf("as an ordinary user: %v", err)
	}
	return false
}
