package promises

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor/restrain"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestW15Supervisor: a session's supervisor has no capability that no session needs, and is beneath a filter that denies what no supervisor calls, in each of its threads. Commands are undone all the
// same, whoever owns the files and whatever their kind. A command without isolation has the rights that it has without us, and no filter.
func TestW15Supervisor(t *testing.T) {
	var unneeded uint64
	for _, c := range restrain.GivenUp() {
		unneeded |= 1 << c.Number
	}
	for _, flags := range [][]string{{"--isolation", "jail"}, {"--isolation", "jail", "--bridge", "fuse"}, {"--isolation", "landlock"}, {"--isolation", "none"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			s := drive.New(t, nil)
			if flags[1] == "landlock" && s.Do(t, "run", "--isolation", "landlock", "--", "true").Code != 0 {
				return // not on this machine
			}
			theirs := filepath.Join(s.Dir, "theirs")
			if err := os.WriteFile(theirs, []byte("theirs"), 0o600); err != nil {
				t.Fatal(err)
			}
			if os.Geteuid() == 0 {
				if err := os.Chown(theirs, 7, 8); err != nil {
					t.Fatal(err)
				}
			}
			before := s.Snapshot(t)
			s.Must(t, append([]string{"start"}, flags...)...)
			s.Run(t, "echo x >f; mkfifo p; ln -s f l; mkdir s; for c in 'chown 7:8 f' 'chmod 4750 f' 'mknod d c 1 3' 'rm -f theirs'; do $c || :; done")
			var list []struct{ PID int }
			if err := json.Unmarshal([]byte(s.Must(t, "ps", "--json").Stdout), &list); err != nil || len(list) != 1 {
				t.Fatalf("sessions: %+v, %v", list, err)
			}
			threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", list[0].PID))
			if err != nil || len(threads) == 0 {
				t.Fatalf("threads: %v, %v", threads, err)
			}
			for _, thread := range threads {
				text, err := os.ReadFile(thread)
				if err != nil {
					continue // it has ended
				}
				if has := capabilities(t, text); has&unneeded != 0 {
					t.Errorf("%s: %#x", thread, has&unneeded)
				}
				if filtered := strings.Contains(string(text), "\nSeccomp:\t2\n"); filtered != (flags[1] != "none") {
					t.Errorf("%s: beneath a filter: %v", thread, filtered)
				}
			}
			if flags[1] == "none" {
				own, err := os.ReadFile("/proc/self/status")
				if err != nil {
					t.Fatal(err)
				}
				status := s.Must(t, "run", "--", "cat", "/proc/self/status").Stdout
				if has, want := capabilities(t, []byte(status)), capabilities(t, own); has != want {
					t.Errorf("a command has the capabilities %#x, and we %#x", has, want)
				}
			}
			s.Must(t, "undo", strconv.Itoa(len(s.History(t))))
			treesnap.AssertEqual(t, before, s.Snapshot(t))
			s.Must(t, "stop")
		})
	}
}

// capabilities are those permitted that a status says.
func capabilities(t *testing.T, status []byte) uint64 {
	t.Helper()
	_, rest, _ := strings.Cut(string(status), "\nCapPrm:\t")
	line, _, _ := strings.Cut(rest, "\n")
	has, err := strconv.ParseUint(line, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return has
}
