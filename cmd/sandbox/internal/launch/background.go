package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/messages"
)

// Background says on its first line how the start of a session in the background
// went; then it is closed.
type Background struct {
	Session string `json:"session,omitempty"`
	PID     int    `json:"pid,omitempty"`
	// Error is why there is none, and Code the exit status.
	Error string `json:"error,omitempty"`
	Code  int    `json:"code,omitempty"`
	// Again: somebody else was faster.
	Again bool `json:"again,omitempty"`
}

// logLimit is from which size on the log of sessions in the background is begun anew.
const logLimit = 1 << 20

// StartBackground runs this program with these arguments, in a session of its own
// and without a terminal, and returns when it has reported.
func StartBackground(args []string) (b Background, err error) {
	self, err := os.Executable()
	if err != nil {
		return b, err
	}
	log, err := backgroundLog()
	if err != nil {
		return b, err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return b, err
	}
	defer r.Close()
	cmd := &exec.Cmd{Path: self, Args: append([]string{os.Args[0]}, args...), Stderr: log, SysProcAttr: detached()}
	reportsTo(cmd, w)
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return b, err
	}
	err = json.NewDecoder(io.LimitReader(r, 64<<10)).Decode(&b) // something else may hold the pipe open
	if err != nil || b.Error != "" {
		_ = cmd.Wait()
	} else {
		err = cmd.Process.Release()
	}
	switch {
	case err != nil:
		return b, fmt.Errorf("the session in the background did not start; %s says why", log.Name())
	case b.Again:
		return b, messages.ErrEnding
	case b.Error != "":
		return b, &console.Error{Code: b.Code, Err: errors.New(b.Error)}
	}
	return b, nil
}

// Report tells who started this program in the background how that went.
func (b Background) Report() error {
	f, err := reportFile()
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(b), f.Close())
}

// backgroundLog is the stderr of sessions in the background.
func backgroundLog() (*os.File, error) {
	dir, err := actors.StateDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "sessions.log")
	if st, err := os.Lstat(path); err == nil && st.Size() > logLimit {
		_ = os.Rename(path, path+".old")
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
