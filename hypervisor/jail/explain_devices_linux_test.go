package jail

import (
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
)

// TestExplainDevices: of /dev a jail's own devices are there, those that are given, and the directories above them; nothing else is.
func TestExplainDevices(t *testing.T) {
	given := []deviceNode{{Path: "/dev/none/card0"}}
	for path, want := range map[string]struct {
		read bool
		why  string
	}{
		"/dev/null":       {true, "as before"},
		"/dev/shm/x":      {true, "as before"},
		"/dev":            {true, "as before"},
		"/dev/none":       {true, "as before"},
		"/dev/none/card0": {true, "the host's device, by --device"},
		"/dev/none/card1": {false, "this is none of them; stat /dev/none/card1"},
		"/dev/tty1":       {false, "this is none of them"},
	} {
		s := hypervisor.Sight{Path: path, Read: true, Write: true, Why: "as before"}
		(&planner{user: account{}}).explainDevice(&s, given)
		if s.Read != want.read || s.Write != want.read || !strings.Contains(s.Why, want.why) {
			t.Errorf("%s: %+v", path, s)
		}
	}
}
