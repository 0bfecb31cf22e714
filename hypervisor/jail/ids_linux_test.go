package jail

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
)

func TestIDMaps(t *testing.T) {
	ids, err := parseIDMap(strings.NewReader("         0     100000      65536\n     70000          5          2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := identityMap(ids), "0 0 65536\n70000 70000 2\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, c := range []struct {
		a, b uint32
		want string
	}{
		{0, 61000, "0 61000 1\n1 1 60999\n61000 0 1\n61001 61001 4535\n70000 70000 2\n"},
		{0, 1, "0 1 1\n1 0 1\n2 2 65534\n70000 70000 2\n"},
		{0, 65535, "0 65535 1\n1 1 65534\n65535 0 1\n70000 70000 2\n"},
		{0, 70001, "0 70001 1\n1 1 65535\n70000 70000 1\n70001 0 1\n"},
		{5, 5, "0 0 65536\n70000 70000 2\n"},
		{0, 65536, ""},
	} {
		got, err := swapMap(ids, c.a, c.b)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%d, %d: %q, %v", c.a, c.b, got, err)
		}
	}
	for _, bad := range []string{"x", "0 0", "0 0 99999999999"} {
		if ids, err := parseIDMap(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: %v", bad, ids)
		}
	}
}

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
		if err := mapIDs(cmd.Process.Pid); err != nil {
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
