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

// method decodes a request, calls f and lets the result be encoded.
func method[P, R any](f func(context.Context, P) (R, error)) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, params json.RawMessage) (any, error) {
		var p P
		if len(params) > 0 {
			d := json.NewDecoder(bytes.NewReader(params))
			d.DisallowUnknownFields()
			if err := d.Decode(&p); err != nil {
				return nil, &Error{Code: CodeBadRequest, Message: "parameters: " + err.Error()}
			}
		}
		return f(ctx, p)
	}
}

type none struct{}

// Session is what the control socket offers.
type Session interface {
	api.Service
	api.Notifier
	api.Runner
	api.Services
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
	s := &SessionServer{SessionOptions: o, runs: map[uint64]*joined{}}
	s.ending, s.end = context.WithCancel(context.Background())
	return s
}

// Handle is a [Handler].
func (s *SessionServer) Handle(ctx context.Context, c *Call) (any, error) {
	methods := map[string]func(context.Context, json.RawMessage) (any, error){
		"status":    method(func(ctx context.Context, _ none) (api.Status, error) { return s.Session.Status(ctx) }),
		"history":   method(s.Session.History),
		"show":      method(s.Session.Show),
		"output":    method(s.Session.Output),
		"undo":      method(s.Session.Undo),
		"redo":      method(s.Session.Redo),
		"restore":   method(s.Session.Restore),
		"mark":      method(s.Session.Mark),
		"gc":        method(s.Session.GC),
		"pending":   method(func(ctx context.Context, _ none) ([]api.Pending, error) { return s.Session.Pending(ctx) }),
		"decide":    method(func(ctx context.Context, r api.DecideRequest) (none, error) { return none{}, s.Session.Decide(ctx, r) }),
		"decisions": method(func(ctx context.Context, _ none) ([]api.Decided, error) { return s.Session.Decisions(ctx) }),
		"take_back": method(func(ctx context.Context, r api.TakeBackRequest) (none, error) {
			return none{}, s.Session.TakeBack(ctx, r)
		}),
		"network": method(func(ctx context.Context, _ none) (api.NetworkStatus, error) { return s.Session.Network(ctx) }),
		"inspect": method(func(ctx context.Context, _ none) (api.Tree, error) { return s.Session.Inspect(ctx) }),
		"diff": method(func(ctx context.Context, r api.StepRequest) (none, error) {
			return none{}, s.Session.Diff(ctx, r, partWriter(func(part any) error { return c.Emit(part) }))
		}),
		"content": method(func(ctx context.Context, r api.ContentRequest) (none, error) {
			return none{}, s.Session.Content(ctx, r, partWriter(func(part any) error { return c.Emit(part) }))
		}),
		"subscribe": method(func(ctx context.Context, _ none) (none, error) { return none{}, s.stream(ctx, c.Emit) }),

		"run":    method(func(ctx context.Context, r runParams) (runResult, error) { return s.run(ctx, r, c) }),
		"offers": method(s.offers),
		"signal": method(s.signal),
		"resize": method(s.resize),
		"stop":   method(s.stop),

		"service_start":  method(s.startService),
		"service_list":   method(func(ctx context.Context, _ none) ([]api.ServiceStatus, error) { return s.Session.Services(ctx) }),
		"service_output": method(s.Session.ServiceOutput),
		"service_stop": method(func(ctx context.Context, r serviceName) (api.ServiceStatus, error) {
			return s.Session.StopService(ctx, r.Name)
		}),
		"processes": method(func(ctx context.Context, _ none) ([]api.Running, error) { return s.Session.Processes(ctx) }),
		"kill":      method(func(ctx context.Context, _ none) (int, error) { return s.Session.Kill(ctx) }),
	}
	f := methods[c.Method]
	if f == nil {
		return nil, &Error{Code: CodeUnknownMethod, Message: fmt.Sprintf("unknown method %q", c.Method)}
	}
	return f(ctx, c.Params)
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
