//go:build amd64 || arm64

package nofile_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/guest/nofile"
)

const variable = "NOFILE_TEST"

// TestStarted: the limit is the one that the program was started with, not what Go has raised it to.
func TestStarted(t *testing.T) {
	if os.Getenv(variable) != "" {
		var now syscall.Rlimit
		err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now)
		soft, hard := nofile.Started()
		fmt.Println("started with", soft, hard, "raised", now.Cur > soft, err)
		return
	}
	cmd := exec.Command("sh", "-c", `ulimit -Sn 77 && ulimit -Hn 300 && exec "$0" -test.run='^TestStarted$'`, os.Args[0])
	cmd.Env = append(os.Environ(), variable+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "started with 77 300 raised true <nil>\n") {
		t.Errorf("%v: %s", err, out)
	}
}
