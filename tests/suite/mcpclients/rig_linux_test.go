package mcpclients

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// installed is the outcome of npm ci in this process.
var installed = sync.OnceValues(func() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	modules := filepath.Join(here, "node_modules")
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(lock)
	want, stamp := hex.EncodeToString(sum[:]), filepath.Join(modules, ".installed")
	done := func() bool {
		got, err := os.ReadFile(stamp)
		return err == nil && string(got) == want
	}
	if done() {
		return modules, nil
	}
	// The directory itself is the lock: npm ci removes node_modules.
	dir, err := os.Open(here)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil || done() {
		return modules, err
	}
	var out []byte
	for range 4 { // the registry, or the way to it, may hiccup
		// An ordinary user's tests read what root's have installed.
		cmd := exec.Command("sh", "-c", "umask 022; exec npm ci --ignore-scripts --no-audit --no-fund --fetch-retries=4")
		if out, err = cmd.CombinedOutput(); err == nil {
			return modules, os.WriteFile(stamp, []byte(want), 0o644)
		}
	}
	return "", fmt.Errorf("npm ci: %w: %s", err, out)
})

// modules returns the directory in which the clients are, and a node that is new
// enough for them: that of the packages, as distributions have older ones.
func modules(t *testing.T) (dir, node string) {
	t.Helper()
	require.Program(t, "node", "nodejs") // npm's
	require.Program(t, "npm", "npm")
	dir, err := installed()
	if err == nil {
		arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
		node = filepath.Join(dir, "node-linux-"+cmp.Or(arch, runtime.GOARCH), "bin", "node")
		_, err = os.Stat(node)
	}
	if err != nil {
		require.Missing(t, "the npm packages of tests/suite/mcpclients", "npm ci --ignore-scripts there; it said: "+err.Error())
	}
	return dir, node
}

// result is a tool's, as every client shows it.
type result struct {
	Content    []struct{ Type, Text string }
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool
}

func (r result) text() string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// into decodes the structured result.
func (r result) into(t *testing.T, v any) {
	t.Helper()
	if r.IsError {
		t.Fatalf("an error: %s", r.text())
	}
	if err := json.Unmarshal(r.Structured, v); err != nil {
		t.Fatalf("%v: %s", err, r.Structured)
	}
}

// arguments of a call.
type arguments map[string]any

// client is one that others wrote. Its calls fail the test if there is no
// result; refused is for those that must be a JSON-RPC error, and returns what
// the client says then.
type client interface {
	tools(t *testing.T) []string
	call(t *testing.T, tool string, args arguments) result
	refused(t *testing.T, tool string, args arguments) string
}

// fill makes the folder that the tests work in.
func fill(t testing.TB, root string) {
	for name, text := range map[string]string{
		"src/a.txt": "one\ntwo\nthree\n", "src/b.md": "# two\n", "many/1": "1", "many/2": "2", "many/3": "3",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// serve starts a session that serves MCP on a socket until the test ends, and
// returns the socket.
func serve(t *testing.T, s *drive.Sandbox, flags ...string) (socket string) {
	t.Helper()
	socket = filepath.Join(s.State, "mcp.sock")
	cmd := s.Command(context.WithoutCancel(t.Context()), append([]string{"serve", "--protocol", "mcp", "--mcp-socket", socket}, flags...)...)
	var log strings.Builder
	cmd.Stderr = &log
	// Its answer over stdio says that the session runs.
	first, err := sdk.NewClient(&sdk.Implementation{Name: "first", Version: "1"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v; the log:\n%s", err, &log)
	}
	t.Cleanup(func() {
		if err := first.Close(); err != nil {
			t.Errorf("the server's end: %v", err)
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", &log)
		}
		s.CheckResidue(t)
	})
	return socket
}
