package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// lockPatience is how long a short-lived owner of a log (another 'sandbox
// history', say) is waited for.
const lockPatience = 3 * time.Second

// service finds who can answer for the working folder: the session that has it
// open, or this process itself. Close it.
func (a *app) service(ctx context.Context) (api.Service, api.Directory, error) {
	dirs, err := a.directories(true)
	if err != nil {
		return nil, api.Directory{}, err
	}
	if len(dirs) != 1 {
		return nil, api.Directory{}, usageError{errors.New("name one --working-dir: histories are kept for each folder")}
	}
	s, err := a.serviceOf(ctx, dirs[0])
	return s, dirs[0], err
}

// serviceOf is service for one folder.
func (a *app) serviceOf(ctx context.Context, dir api.Directory) (api.Service, error) {
	cfg := a.config([]api.Directory{dir})
	for deadline := time.Now().Add(lockPatience); ; {
		s, err := actors.Offline(ctx, cfg)
		if err == nil {
			if r, ok := s.(api.Notifier); ok {
				a.tellRecoveries(r)
			}
			return s, nil
		}
		var locked *undolog.LockedError
		if !errors.As(err, &locked) {
			return nil, err
		}
		if locked.Owner.Socket != "" {
			s, dialErr := actors.Dial(ctx, locked.Owner.Socket)
			if dialErr == nil {
				return s, nil
			}
			err = fmt.Errorf("%w; its control socket does not answer: %w", err, dialErr)
		}
		if time.Now().After(deadline) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// tellRecoveries says what opening the log has repaired, before anything else is
// printed; and later, before Close returns, what there is to say then.
func (a *app) tellRecoveries(r api.Notifier) {
	var once sync.Once
	opened := make(chan struct{})
	r.Subscribe(func(e api.Event) {
		if e.Type == api.EventRecovery && e.Recovery != nil {
			fmt.Fprintln(a.stderr, format.Recovery(*e.Recovery))
		}
		if e.Type == api.EventSessionState && e.Message == "active" {
			once.Do(func() { close(opened) })
		}
	})
	select {
	case <-opened:
	case <-time.After(time.Second): // it is the last of what happened; unless there was too much
	}
}

// withService runs f with the service for the working folder.
func (a *app) withService(ctx context.Context, f func(api.Service, api.Directory) error) error {
	s, dir, err := a.service(ctx)
	if err != nil {
		return err
	}
	err = f(s, dir)
	return errors.Join(err, s.Close(ctx))
}

// config is what the flags and the configuration say about a session.
func (a *app) config(dirs []api.Directory) api.Config {
	u, s := a.conf.Undo, a.conf.Safeguards
	return api.Config{
		Directories: dirs,
		Limits: undolog.Limits{
			LogBytes: int64(u.MaxBytes), StepCount: u.MaxSteps, StepBytes: int64(u.MaxStepBytes),
			Age: time.Duration(u.MaxAge), AdoptedRaw: int64(u.MaxUncompressedBytes),
		},
		Symlinks:   undolog.SymlinkPolicy(u.Symlinks),
		Barriers:   undolog.BarrierPolicy(u.Barriers),
		Durability: undolog.Durability(u.Durability),
		Gitignore:  u.Gitignore,
		Safeguards: api.Safeguards{
			DeleteThreshold: s.Deletes, OverwriteBytes: int64(s.OverwriteBytes), RenameOver: s.RenameOver,
			Timeout: time.Duration(s.Timeout), Exempt: s.Exempt,
		},
		CacheNone: a.conf.Bridge.Cache == "none", PosixMetadata: a.conf.Bridge.PosixMetadata,
		Hide:   a.conf.Jail.Hide,
		Show:   a.conf.Jail.Show,
		Debug:  a.conf.Jail.Debug,
		Umask:  uint32(a.umask),
		Logger: a.log,
	}
}

// runtimeDir is where running sessions register and have their sockets. It is
// private to the user.
func runtimeDir() (string, error) {
	base := os.Getenv("XDG_RUNTIME_DIR")
	uid := os.Getuid()
	switch {
	case filepath.IsAbs(base):
		base = filepath.Join(base, "sandbox")
	case uid == 0:
		base = "/run/sandbox"
	default:
		base = filepath.Join(os.TempDir(), fmt.Sprintf("sandbox-%d", uid))
	}
	if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("no place for the control socket: %w; set XDG_RUNTIME_DIR", err)
	}
	if err := private(base); err != nil {
		return "", err
	}
	return base, nil
}
