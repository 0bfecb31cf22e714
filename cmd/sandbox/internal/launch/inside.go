package launch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor"
)

// InsideSocket is where the session outside is asked, or empty if this is not inside one that
// can be.
func InsideSocket() string {
	path := os.Getenv(hypervisor.StepsVariable)
	if path == "" {
		return ""
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Type() != fs.ModeSocket {
		return ""
	}
	return path
}

// CheckInside returns an error if this is inside a sandbox that has no steps for programs
// inside: to make another sandbox there would undo nothing alone.
func CheckInside() error {
	if os.Getenv("SANDBOX") != "1" || InsideSocket() != "" {
		return nil
	}
	return &console.Error{Code: console.Ours, Err: errors.New("this is inside a sandbox that gives commands inside no steps of their own (only " + hypervisor.Instead("", "steps inside") + " does): " +
		"run the command itself, it is undone with the whole run; outside of any sandbox, unset SANDBOX")}
}

// InsideCommand is what to run.
type InsideCommand struct {
	Socket                string
	Argv, Env             []string
	Stdin, Stdout, Stderr *os.File
	Done                  func(api.InsideAnswer) // told how the step ended
}

// grace is how long a command has to end whose step has failed.
const grace = 500 * time.Millisecond

// Run runs the command as a step of its own. The error has the exit status.
func (c InsideCommand) Run() error {
	ours := func(err error) error {
		return &console.Error{Code: console.Ours, Err: fmt.Errorf("asking the session outside for a step: %w", err)}
	}
	conn, err := net.Dial("unix", c.Socket)
	if err != nil {
		return ours(err)
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, api.InsideMaxLine)
	dir, err := os.Getwd()
	if err != nil {
		return ours(err)
	}
	a, err := ask(conn, in, api.InsideRequest{Command: short(api.ShellQuote(c.Argv...)), Dir: short(dir)})
	if err != nil {
		return ours(err)
	}
	if a.Shared != "" {
		fmt.Fprintln(c.Stderr, "sandbox: no step of its own: "+a.Shared)
		return status(c.child(nil))
	}
	lost := make(chan struct{})
	go func() { // nothing comes before we say that it has ended
		defer close(lost)
		_, _ = in.Peek(1)
	}()
	code, startErr := c.child(lost)
	if _, err = conn.Write(line(api.InsideRequest{Ended: true, ExitCode: code})); err == nil {
		<-lost
		a, err = insideAnswer(in)
	}
	switch {
	case startErr != nil:
		return status(code, startErr)
	case err != nil:
		return ours(err)
	case a.Left:
		return &console.Error{Code: console.Ours, Err: fmt.Errorf("step %d: %s, and could not be rolled back: %s", a.Step, a.Outcome, a.Reason)}
	case a.Outcome == "failed" || a.Outcome == "denied":
		return &console.Error{Code: console.Ours, Err: fmt.Errorf("step %d: %s, and was rolled back: %s", a.Step, a.Outcome, a.Reason)}
	}
	c.Done(a)
	return status(code, nil)
}

// short cuts a text that is for people.
func short(text string) string {
	const most = api.InsideMaxLine / 16 // JSON may make six bytes of one
	if len(text) > most {
		return text[:most]
	}
	return text
}

func line(r api.InsideRequest) []byte {
	text, _ := json.Marshal(r) // strings and numbers
	return append(text, '\n')
}

func ask(w io.Writer, in *bufio.Reader, r api.InsideRequest) (a api.InsideAnswer, err error) {
	if _, err = w.Write(line(r)); err != nil {
		return a, err
	}
	return insideAnswer(in)
}

func insideAnswer(in *bufio.Reader) (a api.InsideAnswer, err error) {
	text, err := in.ReadSlice('\n')
	if err != nil {
		return a, err
	}
	if err = json.Unmarshal(text, &a); err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	return a, err
}

// child runs the command, and returns its status. It is ended when lost is closed.
func (c InsideCommand) child(lost <-chan struct{}) (code int, err error) {
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Env, c.Stdin, c.Stdout, c.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		code = 126
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			code = 127
		}
		return code, err
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case s := <-signals:
				// The terminal sends the first two to the whole group.
				if s == syscall.SIGTERM || s == syscall.SIGHUP {
					_ = cmd.Process.Signal(s) // it may have ended
				}
			case <-lost:
				lost = nil
				_ = cmd.Process.Signal(syscall.SIGTERM)
				kill := time.AfterFunc(grace, func() { _ = cmd.Process.Kill() })
				defer kill.Stop()
			}
		}
	}()
	err = cmd.Wait()
	close(ended)
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	if exited := (*exec.ExitError)(nil); err == nil || errors.As(err, &exited) {
		return cmd.ProcessState.ExitCode(), nil
	}
	return console.Ours, err
}

// status is the error that gives the program the command's status.
func status(code int, err error) error {
	if code == 0 && err == nil {
		return nil
	}
	return &console.Error{Code: code, Err: err}
}
