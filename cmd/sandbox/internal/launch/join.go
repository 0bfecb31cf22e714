package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/messages/lexical"
)

// joinPatience is how long a folder is waited for whose session starts or ends.
const joinPatience = 20 * time.Second

// joinPause is how often it is looked at meanwhile.
const joinPause = 10 * time.Millisecond

// Place is where a command shall run, as its caller says it.
type Place struct {
	// Named are the folders that were named; none means the current directory.
	Named []api.Directory
	// Dir is the directory to start in.
	Dir string
	// Settings are what the flags ask for.
	Settings []api.Setting
	// RuntimeDir is where sessions register.
	RuntimeDir string
}

// Place says where a command shall run, with the settings that flags ask for.
func (l *Launcher) Place(flags config.FlagValues) (p Place, err error) {
	if p.RuntimeDir, err = l.RuntimeDir(); err != nil {
		return p, err
	}
	for _, s := range flags.Asked(l.Conf) {
		p.Settings = append(p.Settings, api.Setting(s))
	}
	if l.Conf.Isolation == "auto" && slices.ContainsFunc(p.Settings, isIsolation) {
		p.Settings = settled(p.Settings, l.isolation())
	}
	if l.ConfigFile != "" {
		p.Settings = append(p.Settings, l.configFile())
	}
	undoDir := flags["undo-dir"] != nil && len(flags["undo-dir"].Values) > 0
	if len(l.Dirs) == 0 && len(l.Conf.Directory) == 0 && !undoDir {
		p.Dir, err = workingDirectory()
		return p, err
	}
	if p.Named, err = l.Directories(false); err != nil {
		return p, err
	}
	p.Dir = StartDir(p.Named[0].Path)
	logs := ""
	if undoDir { // the session knows which log in it is whose
		if logs, err = filepath.EvalSymlinks(l.Conf.Undo.Dir); err == nil {
			logs, err = filepath.Abs(logs)
		}
		if err != nil { // no session has a log in it
			return p, nil //nolint:nilerr // Directories has said where the logs would be
		}
	}
	for i := range p.Named {
		p.Named[i].UndoDir = logs
	}
	return p, nil
}

func isIsolation(s api.Setting) bool { return s.Flag == "isolation" }

// settled are settings with the isolation that auto means here.
func settled(settings []api.Setting, isolation string) []api.Setting {
	if i := slices.IndexFunc(settings, isIsolation); i >= 0 {
		settings[i].Values = []string{isolation}
	}
	return settings
}

// configFile is what --config-file says, as a setting.
func (l *Launcher) configFile() api.Setting {
	s := api.Setting{Flag: "config-file"}
	if path, err := filepath.Abs(l.ConfigFile); err == nil && l.ConfigFile != "" {
		s.Values = []string{path}
	}
	return s
}

// settings are what a session has that is started now.
func (l *Launcher) settings() []api.Setting {
	out := []api.Setting{l.configFile()}
	for _, s := range l.Conf.Settings() {
		out = append(out, api.Setting(s))
	}
	return out
}

func workingDirectory() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("the current directory is not there any more: change to another one (%w)", err)
	}
	return filepath.EvalSymlinks(wd)
}

// StartDir is the current directory if it is in a working folder, else the first of these.
func StartDir(first string, others ...string) string {
	wd, err := workingDirectory()
	if err != nil || !slices.ContainsFunc(append(others, first), func(folder string) bool { return lexical.Within(wd, folder) }) {
		return first
	}
	return wd
}

// Wants is what a session must have to be this place's.
func (p Place) Wants(keep time.Duration) api.Wants {
	return api.Wants{Settings: p.Settings, Directories: p.Named, Keep: keep}
}

// Session connects to the session that has the place's folder; nil if none has it.
func (p Place) Session(ctx context.Context) (api.Joined, error) {
	for _, info := range actors.Registered(p.RuntimeDir) {
		here := func(dir string) bool { return lexical.Within(p.Dir, dir) }
		if len(p.Named) > 0 {
			here = func(dir string) bool {
				return slices.ContainsFunc(p.Named, func(d api.Directory) bool { return d.Path == dir })
			}
		}
		if !slices.ContainsFunc(info.Directories, here) {
			continue
		}
		s, err := actors.Join(ctx, info.Socket)
		if err == nil {
			return s, nil
		}
		_ = actors.Sessions(p.RuntimeDir) // removes what a killed one has left
	}
	return nil, nil
}

// Attempt is how somebody takes part in a place's session, or has it. Each function
// may return messages.ErrEnding: then the place is looked at again.
type Attempt struct {
	// First, if it is not nil, is the session that is joined first: it was asked before
	// the place was known.
	First api.Joined
	// Join is called with the session that is there. It closes it.
	Join func(api.Joined) error
	// Start is called if there is none. *undolog.LockedError says that somebody was
	// faster, or is still there.
	Start func() error
}

// Attempt joins the session of the place, or starts one. Of several that race, one
// starts it.
func (p Place) Attempt(ctx context.Context, a Attempt) error {
	for deadline := time.Now().Add(joinPatience); ; {
		s, err := a.First, error(nil)
		if a.First = nil; s == nil {
			s, err = p.Session(ctx)
		}
		switch {
		case err != nil:
			return err
		case s != nil:
			err = a.Join(s)
		default:
			err = a.Start()
			if errors.Is(err, api.ErrDirectory) { // the folder of a session that was not there before, perhaps
				if s, _ := p.Session(ctx); s != nil {
					err = errors.Join(messages.ErrEnding, s.Close(ctx))
				}
			}
		}
		var locked *undolog.LockedError
		if wait := errors.Is(err, messages.ErrEnding) || errors.As(err, &locked) && !locked.Moved; !wait || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(joinPause):
		}
	}
}

// Running is the session that has the folder; it is an error if there is none.
func (p Place) Running(ctx context.Context) (api.Joined, error) {
	s, err := p.Session(ctx)
	if s == nil && err == nil {
		err = &console.Error{Code: console.Failed, Err: fmt.Errorf("no session has %s; 'sandbox start' starts one, 'sandbox ps' lists what runs", p.Dir)}
	}
	return s, err
}
