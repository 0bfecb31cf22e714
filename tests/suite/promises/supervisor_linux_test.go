package promises

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
	"github.com/codeagent/sandbox/tests/suite/jsonl"
)

// TestW15Supervisor: a session's supervisor has no capability that no session needs, and is beneath a filter that denies what no supervisor calls, in each of its threads. Commands are undone all the
// same, whoever owns the files and whatever their kind. A command without isolation has the rights that it has without us, and no filter.
func TestW15Supervisor(t *testing.T) {
	var unneeded uint64
	for _, c := range filters.GivenUp() {
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
			for thread, text := range threads(t, list[0].PID) {
				if has := capabilities(t, text); has&unneeded != 0 {
					t.Errorf("%s: %#x", thread, has&unneeded)
				}
			}
			if got := filtered(t, list[0].PID); got != (flags[1] != "none") {
				t.Errorf("beneath a filter: %v", got)
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

// TestW15Served: who serves a session over STDIO or MCP is beneath the same filter from when the session runs. A later session of the same program starts if the filter lets through what its commands may
// do, and is refused if it does not: without isolation.
func TestW15Served(t *testing.T) {
	t.Run("stdio", func(t *testing.T) {
		s := drive.New(t, nil)
		cmd := s.Command(t.Context(), "serve", "--protocol", "stdio")
		c := jsonl.Start(t, cmd)
		session := func(isolation string, beneath bool) {
			c.Must("session.start", map[string]any{"isolation": isolation}, nil)
			if got := filtered(t, cmd.Process.Pid); got != beneath {
				t.Errorf("with %s, beneath a filter: %v", isolation, got)
			}
			c.Must("agent.execute", map[string]any{"command": "echo x >f"}, nil)
			c.Must("undo.rollback", nil, nil)
			c.Must("session.stop", nil, nil)
		}
		session("none", false)
		session("jail", true)
		session("jail", true)
		if m := c.Call("session.start", map[string]any{"isolation": "none"}); m.Code() != "unavailable" || !strings.Contains(m.Line, "start another one") {
			t.Errorf("without isolation: %s", m.Line)
		}
		session("jail", true)
		c.Close()
		c.WaitEnd()
	})
	t.Run("mcp", func(t *testing.T) {
		s := drive.New(t, nil)
		cmd := s.Command(t.Context(), "serve", "--protocol", "mcp")
		client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !filtered(t, cmd.Process.Pid) {
			t.Error("not beneath a filter")
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
}

// threads are what the kernel says of the threads of a process.
func threads(t *testing.T, pid int) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(names) == 0 {
		t.Fatalf("threads: %v, %v", names, err)
	}
	said := make(map[string][]byte)
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil { // or it has ended
			said[name] = text
		}
	}
	return said
}

// filtered reports whether a process is beneath a filter, in each thread.
func filtered(t *testing.T, pid int) bool {
	t.Helper()
	all, with := threads(t, pid), 0
	for _, text := range all {
		if strings.Contains(string(text), "\nSeccomp:\t2\n") {
			with++
		}
	}
	if with != 0 && with != len(all) {
		t.Errorf("%d of %d threads are beneath a filter", with, len(all))
	}
	return with > 0
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
