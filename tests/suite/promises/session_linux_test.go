package promises

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// report is what the program inside has found out: for each promise, how it was broken, or nothing.
type report map[string]string

// run runs the program inside: as the command that a session is started for, as one that joins a session, or as a service of it.
func (p *place) run() (found report, said string, err error) {
	var out []byte
	switch p.Cell.Command {
	case "first":
		out, said, err = p.attended(append(append([]string{"run"}, p.flags()...), "--", p.Work+"/prober", "inside")...)
	default:
		if said, err = p.start(); err != nil {
			return nil, said, err
		}
		inside := append([]string{"--", p.Work + "/prober", "inside"}, sockets(p.Runtime)...)
		try := p.attended
		if p.Cell.Command == "service" {
			try = p.service
		}
		p.moveSockets()
		var more string
		out, more, err = try(append([]string{"run"}, inside...)...)
		said += more
		_, stopped := p.do("stop")
		err = errors.Join(err, stopped)
	}
	if err != nil {
		return nil, said + string(out), err
	}
	return found, said, json.Unmarshal(out, &found)
}

// start starts a session in the background, from the same terminal and with the same open files as commands.
func (p *place) start() (said string, err error) {
	cmd, end := p.atTerminal(append([]string{"start"}, p.flags()...)...)
	defer end()
	cmd.Stdin = p.slave
	out, err := cmd.CombinedOutput()
	p.t.Cleanup(func() { _ = p.command("stop").Run() })
	return string(out), err
}

// atTerminal prepares a command whose terminal is the user's, and that has a terminal and a directory open, which lead nowhere inside.
func (p *place) atTerminal(args ...string) (cmd *exec.Cmd, end func()) {
	cmd = p.command(args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: p.Cell.Isolation != "none"} // or nobody reads the terminal
	above, err := os.Open(p.base)
	must(p.t, err)
	cmd.ExtraFiles = []*os.File{p.slave, above}
	return cmd, func() { above.Close() }
}

// attended runs the program as a command that a person waits for. If it asks for control sockets, it is told them.
func (p *place) attended(args ...string) (report []byte, stderr string, err error) {
	cmd, end := p.atTerminal(args...)
	defer end()
	var said strings.Builder
	own, in, err := os.Pipe()
	must(p.t, err)
	defer in.Close()
	cmd.Stdin, cmd.Stderr = own, &said
	if p.Cell.Isolation != "none" {
		cmd.Stdin, in = p.slave, p.master
	}
	out, err := cmd.StdoutPipe()
	must(p.t, err)
	must(p.t, errors.Join(cmd.Start(), own.Close()))
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err == nil && line == "ready\n" {
		p.moveSockets()
		_, err = in.WriteString(strings.Join(sockets(p.Runtime), " ") + "\n")
		must(p.t, err)
		line = ""
	}
	rest, err := io.ReadAll(lines)
	must(p.t, err)
	return append([]byte(line), rest...), said.String(), cmd.Wait()
}

// service runs the program as a service, and waits until it has ended.
func (p *place) service(args ...string) (report []byte, stderr string, err error) {
	cmd, end := p.atTerminal(append([]string{args[0], "--service", "prober"}, args[1:]...)...)
	defer end()
	if cmd.Stdin = p.slave; p.Cell.Isolation == "none" {
		cmd.Stdin = nil
	}
	said, err := cmd.CombinedOutput()
	if err != nil {
		return nil, string(said), err
	}
	var list []struct {
		State    string
		ExitCode int `json:"exit_code"`
	}
	actortest.Eventually(p.t, "the service to end", func() bool {
		text, err := p.do("service", "ls", "--json")
		must(p.t, err)
		must(p.t, json.Unmarshal([]byte(text), &list))
		return len(list) == 1 && list[0].State != "running"
	})
	text, err := p.do("service", "output", "prober")
	if list[0].ExitCode != 0 {
		err = errors.Join(err, fmt.Errorf("the service has ended with %d", list[0].ExitCode))
	}
	return []byte(text), string(said), err
}

// sockets are those in a directory.
func sockets(dir string) (out []string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type() == fs.ModeSocket {
			out = append(out, path)
		}
		return nil
	})
	return out
}
