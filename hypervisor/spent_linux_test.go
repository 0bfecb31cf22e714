package hypervisor

import (
	"bufio"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestTreeCPUTime: what a child takes counts while it runs, and when it has ended.
func TestTreeCPUTime(t *testing.T) {
	cmd := exec.Command("sh", "-c", "(while :; do :; done) & trap 'kill $!; wait $!; echo reaped; read line; exit' TERM; echo begun; wait")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	said := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, %v", lines.Text(), lines.Err())
		}
	}
	said("begun")
	const enough = 30 * time.Millisecond
	for spent := time.Duration(0); spent < enough; { // it takes as long as the machine lets it
		var ok bool
		if spent, ok = TreeCPUTime(cmd.Process.Pid); !ok {
			t.Fatal("it is not there")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	said("reaped")
	if list := childrenOf(cmd.Process.Pid); len(list) > 0 {
		t.Errorf("children: %v", list)
	}
	if spent, ok := TreeCPUTime(cmd.Process.Pid); !ok || spent < enough {
		t.Errorf("after its end: %v, %v", spent, ok)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its status is that of read
	if spent, ok := TreeCPUTime(cmd.Process.Pid); ok {
		t.Errorf("of a process that is not there: %v", spent)
	}
}
