package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
)

// method answers the requests of one name.
type method func(ctx context.Context, s *SessionServer, c *Call) (any, error)

// own is a method of the connection, or of the session's process: no [api.Operation].
func own[P, R any](f func(*SessionServer, context.Context, P, *Call) (R, error)) method {
	return func(ctx context.Context, s *SessionServer, c *Call) (any, error) {
		var p P
		if err := c.decode(&p); err != nil {
			return nil, err
		}
		return f(s, ctx, p, c)
	}
}

// order is [own] for what has no answer but that it was done.
func order[P any](f func(*SessionServer, context.Context, P) error) method {
	return own(func(s *SessionServer, ctx context.Context, p P, _ *Call) (api.None, error) {
		return api.None{}, f(s, ctx, p)
	})
}

// passed passes an operation on to the session.
func passed(o api.Operation) method {
	return func(ctx context.Context, s *SessionServer, c *Call) (any, error) {
		p := o.New()
		if err := c.decode(p); err != nil {
			return nil, err
		}
		if o.Traits&api.Commands != 0 {
			if err := s.started(ctx); err != nil {
				return nil, err
			}
		}
		return o.Do(ctx, s.Session, p, partWriter(func(part any) error { return c.Emit(part) }))
	}
}

// decode fills in the parameters.
func (c *Call) decode(into any) error {
	if len(c.Params) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(c.Params))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &Error{Code: CodeBadRequest, Message: "parameters: " + err.Error()}
	}
	return nil
}

// methods are all that there are.
func methods() map[string]method {
	all := map[string]method{
		"run":        own((*SessionServer).run),
		"run_output": own((*SessionServer).output),
		"run_input":  own((*SessionServer).input),
		"signal":     order((*SessionServer).signal),
		"resize":     order((*SessionServer).resize),
		"offers":     order((*SessionServer).offers),
		"stop":       order((*SessionServer).stop),
		"subscribe": own(func(s *SessionServer, ctx context.Context, _ api.None, c *Call) (api.None, error) {
			return api.None{}, s.stream(ctx, c.Emit)
		}),
	}
	for _, o := range api.Operations() {
		if o.Control != "" {
			all[o.Control] = passed(o)
		}
	}
	return all
}

// Session is what the control socket offers.
type Session interface {
	api.Service
	api.Notifier
	api.Runner
	api.Services
	api.Commander
	api.Decisions
	api.Networked
}

// SessionOptions make a [SessionServer].
type SessionOptions struct {
	Session Session
	// Stopped is closed when the session has ended.
	Stopped <-chan struct{}
	// Started is closed when commands can run.
	Started <-chan struct{}
	// Settings are what the session was started with.
	Settings []api.Setting
	// Stop ends the session; nil: it cannot be ended by others.
	Stop func()
	// Idle keeps the session while somebody is connected; nil: it ends by itself.
	Idle *Idle
}

// SessionServer answers the requests of the control socket.
type SessionServer struct {
	SessionOptions
	methods map[string]method
	drain   time.Duration // drainTime
	fetch   time.Duration // fetchTime

	mu   sync.Mutex
	runs map[uint64]*joined // the commands of clients that run
	last uint64             // numbers them

	ended  bool // no more commands are taken
	active sync.WaitGroup
	ending context.Context // of their contexts
	end    context.CancelFunc
}

// NewServer makes a server.
func NewServer(o SessionOptions) *SessionServer {
	s := &SessionServer{SessionOptions: o, methods: methods(), drain: drainTime, fetch: fetchTime, runs: map[uint64]*joined{}}
	s.ending, s.end = context.WithCancel(context.Background())
	return s
}

// Handle is a [Handler].
func (s *SessionServer) Handle(ctx context.Context, c *Call) (any, error) {
	f := s.methods[c.Method]
	if f == nil {
		return nil, &Error{Code: CodeUnknownMethod, Message: fmt.Sprintf("unknown method %q", c.Method)}
	}
	return f(ctx, s, c)
}

// started returns when commands can run.
func (s *SessionServer) started(ctx context.Context) error {
	select {
	case <-s.Started:
		return nil
	case <-s.Stopped:
		return messages.ErrEnding
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stream sends events until the client or the session is gone.
func (s *SessionServer) stream(ctx context.Context, emit func(any, ...*os.File) error) error {
	broken := make(chan error, 1)
	cancel := s.Session.Subscribe(func(e api.Event) {
		if err := emit(e); err != nil {
			select {
			case broken <- err:
			default:
			}
		}
	})
	defer cancel()
	st, err := s.Session.Status(ctx)
	if err == nil { // whoever asks for what there is from now on misses nothing
		err = emit(api.Event{Type: api.EventSessionState, At: time.Now(), Message: st.State})
	}
	if err != nil {
		return err
	}
	select {
	case err := <-broken:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.Stopped:
		return messages.ErrStopped
	}
}

// partWriter sends bytes as parts (base64 in JSON: a diff need not be UTF-8).
type partWriter func(any) error

func (w partWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), 64<<10)
		if err := w(rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}
