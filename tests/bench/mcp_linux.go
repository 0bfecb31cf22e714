package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

// mcpSession is bin/sandbox serving MCP, in the jail, to this process. It is
// spoken to by lines, so that only the server's work is measured.
type mcpSession struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	id  int
}

func newMCPSession(l *lab, bin, dir string) (*mcpSession, error) {
	cmd := exec.Command(bin, "serve", "--protocol", "mcp", "--working-dir", dir, "--undo-dir", dir+".undo", "--log-level", "error")
	cmd.Env = append(environ(), "XDG_RUNTIME_DIR="+l.scratch, "XDG_STATE_HOME="+l.scratch)
	return startMCP(cmd)
}

// startMCP starts a server and says hello.
func startMCP(cmd *exec.Cmd) (*mcpSession, error) {
	cmd.Stderr = os.Stderr
	s := &mcpSession{cmd: cmd}
	var err error
	if s.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err = s.request("initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"},
	}, nil)
	if err == nil {
		_, err = io.WriteString(s.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// request sends one request and waits for its answer.
func (s *mcpSession) request(method string, params, result any) error {
	s.id++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.id, "method": method, "params": params})
	if err != nil {
		return err
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		return err
	}
	text, err := s.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	var answer struct {
		ID     int
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	switch err := json.Unmarshal(text, &answer); {
	case err != nil:
		return err
	case answer.Error != nil:
		return fmt.Errorf("%s: %s", method, answer.Error.Message)
	case answer.ID != s.id:
		return fmt.Errorf("%s: an answer to %d: %s", method, answer.ID, text)
	case result != nil:
		return json.Unmarshal(answer.Result, result)
	}
	return nil
}

// tool calls a tool; its structured result goes into result.
func (s *mcpSession) tool(name string, args map[string]any, result any) error {
	var r struct {
		StructuredContent json.RawMessage
		IsError           bool
		Content           json.RawMessage
	}
	if err := s.request("tools/call", map[string]any{"name": name, "arguments": args}, &r); err != nil {
		return err
	}
	if r.IsError {
		return fmt.Errorf("%s: %s", name, r.Content)
	}
	return json.Unmarshal(r.StructuredContent, result)
}

func (s *mcpSession) Close() error {
	return errors.Join(s.in.Close(), s.cmd.Wait())
}

// benchMCP measures what a language model waits for: a command, and a search.
func benchMCP(ctx context.Context, l *lab, r *report.Report, rounds int) (err error) {
	bin, err := program()
	if err != nil {
		return err
	}
	dir, err := l.populated(ctx, "mcp.d")
	if err != nil {
		return err
	}
	s, err := newMCPSession(l, bin, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := mcpExec(ctx, l, r, s, dir, 100*rounds); err != nil {
		return err
	}
	return mcpGrep(ctx, r, s, dir, 4*rounds)
}

// execute runs a command by execute_command.
func (s *mcpSession) execute(command string) error {
	var res struct {
		ExitCode *int `json:"exit_code"`
	}
	err := s.tool("execute_command", map[string]any{"command": command}, &res)
	if err == nil && (res.ExitCode == nil || *res.ExitCode != 0) {
		err = fmt.Errorf("%s failed", command)
	}
	return err
}

// mcpExec compares execute_command with the same shell started by this process,
// and shows the layers between: a server of the SDK without a sandbox, a session's step, the jail's control channel, and
// the session (setsid) that every command gets, so that all of it can be ended:
// the kernel makes it a scheduling group of its own. All shells have pipes for
// their output.
func mcpExec(ctx context.Context, l *lab, r *report.Report, s *mcpSession, dir string, times int) (err error) {
	j := newJail()
	g, err := j.Start(ctx, hypervisor.Config{SessionID: "bench", UID: -1, GID: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Stop(ctx)) }()
	own, err := l.sub("mcp.own")
	if err != nil {
		return err
	}
	session, err := actors.Start(ctx, api.Config{Directories: []api.Directory{{Path: own, UndoDir: own + ".undo"}}, Runtime: j})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close(ctx)) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bare := exec.Command(self, floorArg)
	bare.Dir = dir
	floor, err := startMCP(bare)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, floor.Close()) }()
	id := int64(0)
	argv := []string{"sh", "-c", "true"}
	sides := []struct {
		name string
		run  func() error
	}{
		{"execute_command", func() error { return s.execute(argv[2]) }},
		{"the SDK's server, without a sandbox", func() error { return floor.execute(argv[2]) }},
		{"a step of a session", func() error {
			return piped(func(w *os.File) error {
				_, err := session.Run(ctx, api.RunRequest{Argv: argv, Env: environ(), Stdout: w, Stderr: w})
				return err
			})
		}},
		{"the jail's control channel", func() error {
			return piped(func(w *os.File) error {
				id++
				p, err := g.Exec(ctx, hypervisor.Command{ID: id, Argv: argv, Env: environ(), Dir: "/", Stdout: w, Stderr: w})
				if err == nil {
					_, err = p.Wait(ctx)
				}
				return err
			})
		}},
		{"os/exec, in a session of its own", func() error { return native(ctx, dir, argv, &syscall.SysProcAttr{Setsid: true}) }},
		{"os/exec", func() error { return native(ctx, dir, argv, nil) }},
	}
	took := make([][]time.Duration, len(sides))
	servers := []int{s.cmd.Process.Pid, floor.cmd.Process.Pid}
	cpu := make([][]time.Duration, len(servers)) // of a call
	const row = 10                               // in a row: it is the warm session that is asked about
	for n := range times * len(sides) / row {
		i := n % len(sides)
		var used time.Duration
		if i < len(servers) {
			used = -cpuOf(servers[i])
		}
		for range row {
			start := time.Now()
			if err := sides[i].run(); err != nil {
				return fmt.Errorf("%s: %w", sides[i].name, err)
			}
			took[i] = append(took[i], time.Since(start))
		}
		if i < len(servers) {
			cpu[i] = append(cpu[i], (used+cpuOf(servers[i]))/row)
		}
	}
	last := len(sides) - 1
	r.Ratio("sh -c true over MCP / the same without a sandbox", "execute_command", took[0], took[1], 1.3)
	r.Ratio("the server's processor time for a call / the same without a sandbox", "execute_command", cpu[0], cpu[1], 0)
	for i, goal := range []float64{1.3, 0, 0, 0, 0} {
		r.Ratio("sh -c true / os/exec of it", sides[i].name, took[i], took[last], goal)
	}
	return nil
}

// native runs a command as a Go program would without us.
func native(ctx context.Context, dir string, argv []string, attr *syscall.SysProcAttr) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, environ(), attr
	return piped(func(w *os.File) error {
		cmd.Stdout, cmd.Stderr = w, w
		return cmd.Run()
	})
}

// piped calls f with a pipe and reads the other end until f has returned.
func piped(f func(w *os.File) error) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, r)
		done <- errors.Join(err, r.Close())
	}()
	err = f(w)
	return errors.Join(err, w.Close(), <-done)
}

// mcpGrep compares grep with ripgrep's over the tree.
func mcpGrep(ctx context.Context, r *report.Report, s *mcpSession, dir string, times int) error {
	rg, err := exec.LookPath("rg")
	if err != nil {
		return errors.New("no rg: apt-get install ripgrep")
	}
	for _, pattern := range []string{"ErrUnexpectedEOF", `func \(\w+ \*\w+\) Close\(`} {
		var ours, theirs []time.Duration
		for range times + 1 { // the first warms the caches
			var res struct{ Files []string }
			start := time.Now()
			err := s.tool("grep", map[string]any{"pattern": pattern, "limit": 5000}, &res)
			ours = append(ours, time.Since(start))
			if err != nil {
				return err
			}
			cmd := exec.CommandContext(ctx, rg, "--hidden", "--no-require-git", "--files-with-matches", "--glob", "!.git", "--regexp", pattern, ".")
			cmd.Dir, cmd.Env = dir, environ()
			start = time.Now()
			out, err := cmd.Output()
			theirs = append(theirs, time.Since(start))
			if err != nil {
				return err
			}
			if n := lines(out); n != len(res.Files) {
				return fmt.Errorf("%s: %d files, ripgrep finds %d", pattern, len(res.Files), n)
			}
		}
		r.Ratio("grep over MCP / ripgrep", pattern, ours[1:], theirs[1:], 3)
	}
	return nil
}

func lines(b []byte) (n int) {
	for _, c := range b {
		if c == '\n' {
			n++
		}
	}
	return n
}
