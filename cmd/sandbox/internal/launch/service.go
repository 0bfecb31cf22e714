package launch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// lockPatience is how long a short-lived owner of a log (another 'sandbox
// history', say) is waited for.
const lockPatience = 3 * time.Second

// Service finds who can answer for the working folder: the session that has it
// open, or this process itself. Close it.
func (l *Launcher) Service(ctx context.Context) (api.Service, api.Directory, error) {
	dirs, err := l.Directories(true)
	if err != nil {
		return nil, api.Directory{}, err
	}
	if len(dirs) != 1 {
		return nil, api.Directory{}, console.Usagef("name one --working-dir: histories are kept for each folder")
	}
	s, err := l.ServiceOf(ctx, dirs[0])
	return s, dirs[0], err
}

// ServiceOf is Service for one folder.
func (l *Launcher) ServiceOf(ctx context.Context, dir api.Directory) (api.Service, error) {
	cfg := l.Config([]api.Directory{dir})
	for deadline := time.Now().Add(lockPatience); ; {
		s, err := actors.Offline(ctx, cfg)
		if err == nil {
			if r, ok := s.(api.Notifier); ok {
				l.tellRecoveries(r)
			}
			return s, nil
		}
		var locked *undolog.LockedError
		if !errors.As(err, &locked) {
			return nil, err
		}
		if was := locked.Owner.WorkDir; was != "" && !SameFolder(was, dir.Path) { // it would not know this folder
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

// NewHistory puts the log aside that lies where d's belongs and is not d's own, or of another
// format, and says where it is now.
func (l *Launcher) NewHistory(ctx context.Context, d api.Directory) (aside string, err error) {
	s, err := actors.Offline(ctx, l.Config([]api.Directory{d}))
	if err == nil {
		st, serr := s.Status(ctx)
		if err := errors.Join(serr, s.Close(ctx)); err != nil {
			return "", err
		}
		if st.Directories[0].State == "ok" {
			return "", fmt.Errorf("the history in %s is that of %s itself; 'sandbox gc --discard' throws it away", d.UndoDir, d.Path)
		}
	} else if foreign := new(undolog.ForeignError); !errors.As(err, &foreign) {
		return "", err
	}
	return actors.NewHistory(ctx, d)
}

// tellRecoveries says what opening the log has repaired, before anything else is
// printed; and later, before Close returns, what there is to say then.
func (l *Launcher) tellRecoveries(r api.Notifier) {
	var once sync.Once
	opened := make(chan struct{})
	r.Subscribe(func(e api.Event) {
		if e.Type == api.EventRecovery && e.Recovery != nil {
			fmt.Fprintln(l.Stderr, console.Recovery(*e.Recovery))
		}
		if e.Warning != nil && e.Warning.Code == api.WarnMoved {
			l.Remark("sandbox: " + e.Message)
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

// WithService runs f with the service for the working folder.
func (l *Launcher) WithService(ctx context.Context, f func(api.Service, api.Directory) error) error {
	s, dir, err := l.Service(ctx)
	if err != nil {
		return err
	}
	err = f(s, dir)
	return errors.Join(err, s.Close(ctx))
}

// Looking is WithService for what changes nothing: it says first if something was interrupted and not
// taken up, because the folder is not as the history says then.
func (l *Launcher) Looking(ctx context.Context, f func(api.Service, api.Directory) error) error {
	return l.WithService(ctx, func(s api.Service, d api.Directory) error {
		if st, err := s.Status(ctx); err == nil {
			for _, w := range st.Directories {
				if w.Path == d.Path && w.Log.Interrupted != nil {
					fmt.Fprintln(l.Stderr, console.Interruption(*w.Log.Interrupted))
				}
			}
		}
		return f(s, d)
	})
}

// Sessions lists the running sessions of this user.
func (l *Launcher) Sessions() ([]api.SessionInfo, error) {
	dir, err := l.RuntimeDir()
	if err != nil {
		return nil, err
	}
	return actors.Sessions(dir), nil
}

// SessionByID joins the running session with that id, which 'sandbox ps' lists.
func (l *Launcher) SessionByID(ctx context.Context, id string) (api.Joined, error) {
	list, err := l.Sessions()
	if err != nil {
		return nil, err
	}
	for _, info := range list {
		if info.Session == id {
			return actors.Join(ctx, info.Socket)
		}
	}
	return nil, fmt.Errorf("no session with the id %q runs; 'sandbox ps' lists what runs", id)
}

// EachSession calls f with a client of every running session of this user. A
// session that ends meanwhile is passed over.
func (l *Launcher) EachSession(ctx context.Context, f func(api.Service) error) error {
	list, err := l.Sessions()
	if err != nil {
		return err
	}
	for _, info := range list {
		s, err := actors.Dial(ctx, info.Socket)
		if err != nil {
			l.Log.Debug("session does not answer", "component", "cli", "session", info.Session, "error", err)
			continue
		}
		if err := errors.Join(f(s), s.Close(ctx)); err != nil {
			return err
		}
	}
	return nil
}
