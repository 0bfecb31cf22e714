package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/frontend/mcp"
	"github.com/codeagent/sandbox/tests/kit/screen"
	"github.com/codeagent/sandbox/tests/suite/jsonl"
)

// joined is a run of 'mcp connect'.
type joined struct {
	in   io.WriteCloser
	out  io.Reader
	err  bytes.Buffer
	wait func() error
}

func join(t *testing.T, socket string) *joined {
	t.Helper()
	j := &joined{}
	cmd := screen.Helper(t, "sandbox", "mcp", "connect", socket)
	cmd.Stderr = &j.err
	in, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	j.in, j.out, j.wait = in, out, cmd.Wait
	return j
}

// end waits for the end and returns what the client was told.
func (j *joined) end(t *testing.T) (told string, err error) {
	t.Helper()
	b, err := io.ReadAll(j.out)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), j.wait()
}

// fails waits for the end, which must be status 1 for the reason given.
func (j *joined) fails(t *testing.T, why string) (told string) {
	t.Helper()
	told, err := j.end(t)
	if err == nil || err.Error() != "exit status 1" || !strings.Contains(j.err.String(), why) {
		t.Errorf("%v: %s, want: %s", err, &j.err, why)
	}
	return told
}

// The token lets a client in, and only that; what ended the connection is the
// program's exit status. No session is needed for any of it.
func TestMCPConnect(t *testing.T) {
	run, err := os.MkdirTemp("/tmp", "sb") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	socket := filepath.Join(run, "m")
	join(t, socket).fails(t, "no session is served on "+socket)

	serve := screen.Helper(t, "sandbox", "serve", "--protocol", "stdio", "--mcp-socket", socket)
	server := jsonl.Start(t, serve)
	server.Must("hello", nil, nil)
	for _, path := range []string{socket, mcp.TokenFile(socket)} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
	}
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &sdk.CommandTransport{Command: screen.Helper(t, "sandbox", "mcp", "connect", socket)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := c.ListTools(t.Context(), nil); err != nil || len(l.Tools) == 0 {
		t.Errorf("%+v, %v", l, err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("the end of a client that left: %v", err)
	}

	token, err := os.ReadFile(mcp.TokenFile(socket))
	if err != nil {
		t.Fatal(err)
	}
	write := func(text []byte) {
		if err := os.WriteFile(mcp.TokenFile(socket), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write([]byte("guess\n"))
	if line := join(t, socket).fails(t, "the token is missing or wrong"); strings.Count(line, "\n") != 1 || !strings.Contains(line, `"code":-32001`) || strings.Contains(line, string(bytes.TrimSpace(token))) {
		t.Errorf("the client was told %s", line)
	}
	write(token)

	waiting, left := join(t, socket), join(t, socket)
	if _, err := io.WriteString(waiting.in, "nonsense\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := waiting.out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err) // it is connected once it is answered
	}
	_ = left.in.Close()
	if _, err := left.end(t); err != nil {
		t.Errorf("a client that left: %v: %s", err, &left.err)
	}
	server.Close()
	server.WaitEnd()
	waiting.fails(t, "the server has ended")
	join(t, socket).fails(t, "no session is served on "+socket)
}

// A server that was killed leaves its socket, which nobody serves.
func TestMCPConnectKilled(t *testing.T) {
	run, err := os.MkdirTemp("/tmp", "sb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	socket := filepath.Join(run, "m")
	serve := screen.Helper(t, "sandbox", "serve", "--protocol", "stdio", "--mcp-socket", socket)
	server := jsonl.Start(t, serve)
	server.Must("hello", nil, nil)
	if err := serve.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	server.WaitEnd()
	join(t, socket).fails(t, "nobody serves "+socket+" any more")
}
