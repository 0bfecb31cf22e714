package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/actors/frontend/ui"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/launch"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// sources are this user's sessions and logs.
type sources struct{ launch *launch.Launcher }

func (s sources) Sessions() ([]api.SessionInfo, error) { return s.launch.Sessions() }

func (s sources) Histories() ([]api.Directory, error) { return launch.Histories() }

func (s sources) Dial(ctx context.Context, info api.SessionInfo) (ui.Session, error) {
	c, err := actors.Dial(ctx, info.Socket)
	if err != nil {
		return nil, err
	}
	session, ok := c.(ui.Session)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%T tells of no events", c), c.Close(ctx))
	}
	return session, nil
}

func (s sources) Open(ctx context.Context, d api.Directory) (api.Service, error) {
	return s.launch.ServiceOf(ctx, d)
}

func (s sources) Undo(ctx context.Context, c api.Service, d api.Directory, r api.UndoRequest) (api.UndoResult, error) {
	return s.launch.Undo(ctx, c, d, r)
}

func (s sources) Redo(ctx context.Context, c api.Service, d api.Directory, r api.UndoRequest) (api.UndoResult, error) {
	return s.launch.Redo(ctx, c, d, r)
}

func (s sources) Mark(ctx context.Context, c api.Service, d api.Directory, r api.MarkRequest) ([]undolog.Mark, error) {
	return s.launch.Mark(ctx, c, d, r)
}

func (s sources) Decisions(d api.Directory, most int) ([]json.RawMessage, error) {
	if d.UndoDir == "" {
		var err error
		if d.UndoDir, err = actors.DefaultUndoDir(d.Path); err != nil {
			return nil, err
		}
	}
	var lines []json.RawMessage
	_, err := approval.ChainFile(filepath.Join(d.UndoDir, approval.AuditFile), "", func(l approval.ChainLine) error {
		if !json.Valid(l.Raw) {
			return nil
		}
		if lines = append(lines, json.RawMessage(bytes.Clone(l.Raw))); len(lines) > 2*most {
			lines = slices.Clone(lines[most:])
		}
		return nil
	})
	slices.Reverse(lines)
	return lines[:min(len(lines), most)], err
}

// reports are the commands that know what the page shows.
var reports = map[string][]string{
	"doctor":  {"doctor", "--json"},
	"config":  {"config", "show", "--origin", "--json"},
	"clients": {"install", "--list", "--json"},
	"machine": {"guest", "ls", "--json"},
}

func (s sources) Report(ctx context.Context, what, folder string) (json.RawMessage, error) {
	args, ok := reports[what]
	if !ok {
		return nil, fmt.Errorf("this page: %w", errors.ErrUnsupported)
	}
	if folder != "" {
		args = append(slices.Clone(args), "-C", folder)
	}
	if what == "config" {
		named, err := s.named()
		if err != nil {
			return nil, err
		}
		args = append(slices.Clone(args), named...)
	}
	out, problems, err := self(ctx, folder, nil, args)
	// doctor ends with 1 if something is missing; what it says counts.
	if err != nil && !json.Valid(out) {
		return nil, fmt.Errorf("sandbox %s: %w: %s", strings.Join(args, " "), err, problems)
	}
	return out, nil
}

// self runs this program in a folder (empty: where this one runs), and returns what it says as data and for people.
func self(ctx context.Context, folder string, input []byte, args []string) (out []byte, people string, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	var data, text bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &data, &text
	cmd.Dir = folder
	if input != nil {
		cmd.Stdin = bytes.NewReader(input)
	}
	err = cmd.Run()
	return data.Bytes(), strings.TrimSpace(text.String()), err
}

func (s sources) Integrate(ctx context.Context, i ui.Integration) (done ui.Integrated, err error) {
	args := []string{"install"}
	if i.Remove {
		args[0] = "uninstall"
	}
	args = append(args, "--client="+i.Client, "--"+i.What, "--json")
	if i.Expect == "" {
		args = append(args, "--print")
	} else {
		args = append(args, "--expect="+i.Expect)
	}
	done.Result, done.Note, err = self(ctx, string(filepath.Separator), nil, args) // no project's configuration counts here
	if err = answered(done.Result, done.Note, err); err != nil {
		return ui.Integrated{}, err
	}
	return done, nil
}

// answered is why a run of this program that changes files has not done what it was to do.
func answered(out []byte, people string, err error) error {
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended) && ended.ExitCode() == console.Barrier:
		return ui.ErrStale
	case errors.As(err, &ended) && people != "":
		return ui.Refused(strings.TrimPrefix(people, "sandbox: "))
	case err == nil && !json.Valid(out):
		return errors.New("the program's answer cannot be read")
	}
	return err
}
