package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// shortDir is a directory whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "mcp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// listen serves a socket until the test ends.
func listen(t *testing.T, s *Server, path string) *Socket {
	t.Helper()
	l, err := s.Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := within(t, "the socket's end", done); err != nil {
			t.Error(err)
		}
		for _, p := range []string{path, TokenFile(path)} {
			if _, err := os.Lstat(p); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("left behind: %s", p)
			}
		}
	})
	return l
}

// bridge is a client of the SDK's that comes by [Connect].
func bridge(t *testing.T, path, token string) (*sdk.ClientSession, error) {
	return sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), bridgeTransport(t, path, token), nil)
}

func bridgeTransport(t *testing.T, path, token string) *sdk.IOTransport {
	ours, theirs := net.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Connect(context.Background(), path, token, theirs, theirs)
		_ = theirs.Close()
	}()
	t.Cleanup(func() {
		_ = ours.Close()
		_ = within(t, "the bridge's end", done)
	})
	return &sdk.IOTransport{Reader: ours, Writer: ours}
}

// MC-07: nobody gets in without the token.
func TestMC07Token(t *testing.T) {
	path := filepath.Join(shortDir(t), "mcp.sock")
	l := listen(t, newServer(t, newFake(t), nil), path)
	for name, first := range map[string]string{
		"none":      initialize,
		"wrong":     `{"token":"guess"}`,
		"empty":     `{"token":""}`,
		"no line":   strings.Repeat("x", 2000),
		"malformed": `token`,
		"array":     `["` + l.token + `"]`,
	} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, first+"\n"+initialize+"\n"); err != nil {
			t.Logf("%s: %v", name, err) // refused already
		}
		r := bufio.NewReader(c)
		line, _ := r.ReadBytes('\n')
		var a answer
		if err := json.Unmarshal(line, &a); len(line) > 0 && (err != nil || a.Error == nil || a.Error.Code != codeUnauthorized) {
			t.Errorf("%s: %s", name, line)
		}
		if more, _ := io.ReadAll(r); len(more) > 0 {
			t.Errorf("%s: served: %s", name, more)
		}
		_ = c.Close()
	}
	if _, err := bridge(t, path, "guess"); err == nil {
		t.Error("the bridge came in with a wrong token")
	}
}

// Several clients share the session; modes are private.
func TestSocketClients(t *testing.T) {
	path := filepath.Join(shortDir(t), "mcp.sock")
	listen(t, newServer(t, newFake(t), nil), path)
	for _, p := range []string{path, TokenFile(path)} {
		if st, err := os.Stat(p); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", p, st.Mode(), err)
		}
	}
	var clients []*sdk.ClientSession
	for range 3 {
		c, err := bridge(t, path, "")
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	for i, c := range clients {
		if res := as[CommandResult](t, call(t, c, "execute_command", map[string]any{"command": "echo hi"})); res.Step != int64(i+1) {
			t.Errorf("client %d: %+v", i, res)
		}
		_ = c.Close()
	}
}

// A client that goes away in the middle of a command ends it.
func TestSocketClientGone(t *testing.T) {
	path := filepath.Join(shortDir(t), "mcp.sock")
	listen(t, newServer(t, newFake(t), nil), path)
	transport := bridgeTransport(t, path, "")
	gone, err := sdk.NewClient(&sdk.Implementation{Name: "gone", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = gone.CallTool(context.Background(), &sdk.CallToolParams{Name: "execute_command", Arguments: map[string]any{"command": "echo here >" + fifo + "; exec sleep 100"}})
	}()
	if _, err := os.ReadFile(fifo); err != nil { // returns when the command runs
		t.Fatal(err)
	}
	_ = transport.Reader.Close() // not the client: it would wait for its call
	c, err := bridge(t, path, "")
	if err != nil {
		t.Fatal(err)
	}
	if res := as[CommandResult](t, call(t, c, "execute_command", map[string]any{"command": "echo next"})); res.Stdout != "next\n" {
		t.Errorf("%+v", res)
	}
	_ = c.Close()
}

// What is at the path already is replaced only if it is a socket that nobody
// serves.
func TestSocketPath(t *testing.T) {
	dir := shortDir(t)
	s := newServer(t, newFake(t), nil)
	path := filepath.Join(dir, "mcp.sock")

	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(path, ""); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a socket that is served: %v", err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	listen(t, s, path)
	if _, err := s.Listen(path, ""); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("our own: %v", err)
	}

	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(file, ""); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := s.Listen(filepath.Join(dir, strings.Repeat("x", 100)), ""); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("a long path: %v", err)
	}
	if _, err := s.Listen(filepath.Join(dir, "missing", "s"), ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
	token := filepath.Join(dir, "t")
	if err := os.Symlink(file, TokenFile(token)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(token, ""); err == nil {
		t.Error("the token was written through a symlink")
	}
}
