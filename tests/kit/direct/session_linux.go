package direct

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/fsbridge/virtiofs"
)

// Session is a folder behind a bridge with a log. Its methods must not be
// called concurrently.
type Session struct {
	Log    *undolog.Log
	Bridge fsbridge.Bridge
	Server *Mounted // the Bridge, where that is a mount
	// Recovery is what Open found to do.
	Recovery *undolog.Recovery

	root   *hostfs.Root
	hooks  *interceptor
	closed bool
}

// Options say what Open makes.
type Options struct {
	Dir, Undo, Mount string // Mount is an existing directory
	// Socket, if set, is where a virtual machine finds the folder, instead of
	// Mount; File is a connection to one. Sync makes it write back what is dirty,
	// Drop forget what it caches. TTL is how long it may cache at most.
	Socket     string
	File       *os.File
	Sync, Drop func(context.Context) error
	TTL        time.Duration
	Owner      *vfs.Owner
	Posix      fsbridge.Posix
	Limits     undolog.Limits
	Warn       func(undolog.Warning) // nil: nobody hears of it
	// Serve, if not nil, makes the bridge, and neither Mount nor Socket is used.
	Serve func(vfs.Options) (fsbridge.Bridge, error)
}

// Open mounts the folder. Close the Session.
func Open(ctx context.Context, o Options) (_ *Session, err error) {
	hostfs.ClearUmask()
	s := &Session{}
	if s.root, err = hostfs.OpenRoot(o.Dir); err != nil {
		return nil, err
	}
	s.Log, err = undolog.Open(ctx, undolog.Options{
		Dir: o.Undo, Root: s.root, Settings: undolog.Settings{Limits: o.Limits}, Owner: undolog.Owner{PID: os.Getpid(), WorkDir: o.Dir}, Warn: o.Warn,
	})
	if err == nil {
		s.hooks = &interceptor{log: s.Log}
		s.Recovery, err = s.Log.Recover(ctx)
	}
	if err == nil {
		err = s.serve(o, vfs.Options{Root: s.root, Hooks: s.hooks, Owner: o.Owner, Posix: o.Posix})
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Session) serve(o Options, tree vfs.Options) (err error) {
	if o.Serve != nil {
		b, err := o.Serve(tree)
		if err == nil {
			s.Bridge = b
		}
		return err
	}
	if o.Socket != "" || o.File != nil {
		tree.TTL = o.TTL
		v := virtiofs.Options{Tree: tree, Sync: o.Sync}
		if o.Drop != nil {
			v.Drop = func(virtiofs.Stale) error { return o.Drop(context.Background()) }
		}
		var b *virtiofs.Server
		if o.File != nil {
			b, err = virtiofs.ServeFile(o.File, v)
		} else {
			b, err = virtiofs.Listen(o.Socket, v)
		}
		if err == nil {
			s.Bridge = b
		}
		return err
	}
	if s.Server, err = Mount(o.Mount, tree); err == nil {
		s.Bridge = s.Server
	}
	return err
}

// Close unmounts. Closing twice is harmless.
func (s *Session) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.Bridge != nil {
		err = s.Bridge.Close()
	}
	if s.Server != nil {
		<-s.Server.Done()
	}
	if s.Log != nil {
		err = errors.Join(err, s.Log.Close())
	}
	return errors.Join(err, s.root.Close())
}

// Step calls f with a step open and returns its entry, nil if nothing changed.
// If f fails the step is rolled back.
func (s *Session) Step(ctx context.Context, command string, f func() error) (*undolog.Entry, error) {
	id := s.Log.NextID(undolog.TypeCommand)
	err := s.drained(func() error {
		return s.Log.Begin(id, undolog.StepInfo{Type: undolog.TypeCommand, Command: command})
	})
	if g, ok := s.Bridge.(fsbridge.Granter); ok && err == nil {
		_, err = g.Recapture(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := f(); err != nil {
		return nil, errors.Join(err, s.Abort(ctx))
	}
	if err := s.Bridge.Fence(ctx); err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	var e *undolog.Entry
	err = s.drained(func() error {
		var err error
		e, err = s.Log.Commit(ctx, undolog.StepResult{Status: "completed"})
		return err
	})
	return e, err
}

// Abort rolls the open step back.
func (s *Session) Abort(ctx context.Context) error {
	return s.apply(func() (*undolog.ApplyResult, error) { return s.Log.Abort(ctx) })
}

// Undo undoes the newest n steps.
func (s *Session) Undo(ctx context.Context, n int) error {
	return s.apply(func() (*undolog.ApplyResult, error) { return s.Log.Undo(ctx, undolog.UndoOptions{Count: n}) })
}

// Redo does n steps again.
func (s *Session) Redo(ctx context.Context, n int) error {
	return s.apply(func() (*undolog.ApplyResult, error) { return s.Log.Redo(ctx, undolog.UndoOptions{Count: n}) })
}

func (s *Session) apply(f func() (*undolog.ApplyResult, error)) error {
	var res *undolog.ApplyResult
	err := s.drained(func() error {
		var err error
		res, err = f()
		return err
	})
	if res == nil {
		return err
	}
	return errors.Join(err, s.Bridge.Invalidate(res.Changes))
}

func (s *Session) drained(f func() error) error {
	var err error
	s.hooks.guard.Drain(func() bool {
		if g, ok := s.Bridge.(fsbridge.Granter); ok {
			s.Log.Written(g.Granted())
		}
		err = f()
		return true
	})
	return err
}

// interceptor captures on the bridge's own goroutine.
type interceptor struct {
	guard fsbridge.Guard
	log   *undolog.Log
}

// Held implements [fsbridge.LinkHolder].
func (i *interceptor) Held(id hostfs.ID) int { return i.log.Held(id) }

// Begin implements [fsbridge.Interceptor].
func (i *interceptor) Begin(op *fsbridge.Op) (fsbridge.Ticket, error) {
	about := op.Node
	if about == nil {
		about = op.Dir
	}
	t := i.guard.Enter(about.ID.Ino)
	err := i.check(&t, op)
	if err != nil {
		i.guard.Exit(t)
		return fsbridge.Ticket{}, err
	}
	return t, nil
}

func (i *interceptor) check(t *fsbridge.Ticket, op *fsbridge.Op) error {
	if op.Validate != nil {
		if err := op.Validate(t.Epoch); err != nil {
			return err
		}
	}
	if _, open := i.log.Current(); !open {
		return fsbridge.ErrReadOnly
	}
	if i.log.Protected(t.Epoch, op) {
		return nil
	}
	var err error
	t.Performed, err = i.log.Capture(t.Epoch, op)
	return err
}

// End implements [fsbridge.Interceptor].
func (i *interceptor) End(t fsbridge.Ticket, op *fsbridge.Op, created *fsbridge.Object, err error) {
	i.log.Done(t.Epoch, op, created, err)
	i.guard.Exit(t)
}
