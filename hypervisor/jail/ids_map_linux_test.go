package jail

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// fewIDsVariable says that the process is root of a user namespace with few ids.
const fewIDsVariable = "JAIL_TEST_FEW_IDS"

// TestMapFewIDs maps the ids of a process where, as in a pod, there are no more than
// 65,536 of them.
func TestMapFewIDs(t *testing.T) {
	if os.Getenv(fewIDsVariable) != "" {
		cmd := exec.Command("cat")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := idMap(cmd.Process.Pid); err != nil {
			t.Error(err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		return
	}
	require.Root(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestMapFewIDs$", "-test.v")
	cmd.Env = append(os.Environ(), fewIDsVariable+"=1")
	few := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100000, Size: 65536}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: few, GidMappings: few, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{},
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestMapFewIDs") {
		t.Errorf("%v: %s", err, out)
	}
}
