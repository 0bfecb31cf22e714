package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

const (
	// most is how many services a session keeps, ended ones included.
	most = 64
	// kept is how much of a service's output is.
	kept = 256 << 10
	// grace is how long a service has between TERM and KILL.
	grace = 2 * time.Second
	// drain is how long output is awaited after the end of a service: others may still
	// hold its pipe.
	drain = 100 * time.Millisecond
)

// serviceOptions make a [services].
type serviceOptions struct {
	// Exec starts a command. It is called on the goroutine of who asks.
	Exec func(context.Context, hypervisor.Command) (hypervisor.Process, error)
	// Number gives each command its id.
	Number func() int64
	// Busy is called when a service begins, and what it returns when it has ended.
	Busy func() func()
	// Publish lets the host connect to ports until end is called, and returns them with
	// their addresses. It is called only if there are some.
	Publish func(ports []string) (taken []string, end func(), err error)
	// Ended is told of each service that has ended.
	Ended func(api.ServiceStatus)
	Clock api.Clock
}

// services is the services of one session. Methods are safe for concurrent use.
type services struct {
	o serviceOptions

	mu      sync.Mutex
	list    []*service
	closed  bool
	running sync.WaitGroup
}

// service is one of them. Its mu guards what changes.
type service struct {
	req   api.ServiceRequest
	ended chan struct{}

	mu     sync.Mutex
	status api.ServiceStatus
	proc   hypervisor.Process // nil until it runs
	output []byte             // at most 2*kept, cut now and then
	total  int64
}

// newService makes a set without services.
func newService(o serviceOptions) *services { return &services{o: o} }

// Start starts a service. Its environment and directory are complete.
func (s *services) Start(ctx context.Context, r api.ServiceRequest) (api.ServiceStatus, error) {
	if err := r.Validate(); err != nil {
		return api.ServiceStatus{}, err
	}
	v := &service{req: r, ended: make(chan struct{}), status: api.ServiceStatus{
		Name: r.Name, Command: api.ShellQuote(r.Argv...), Dir: r.Dir, State: api.ServiceRunning, StartedAt: s.o.Clock.Now(),
	}}
	if err := s.add(v); err != nil {
		return api.ServiceStatus{}, err
	}
	if err := s.launch(ctx, v); err != nil {
		s.remove(v)
		close(v.ended)
		s.running.Done()
		return api.ServiceStatus{}, err
	}
	return v.now(), nil
}

// add takes the name.
func (s *services) add(v *service) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return messages.ErrEnding
	}
	i := slices.IndexFunc(s.list, func(o *service) bool { return o.req.Name == v.req.Name })
	if i >= 0 && s.list[i].now().State == api.ServiceRunning {
		return fmt.Errorf("%w: service %s runs already; stop it first", api.ErrService, v.req.Name)
	}
	if i >= 0 {
		s.list = slices.Delete(s.list, i, i+1)
	} else if len(s.list) >= most {
		return fmt.Errorf("%w: there are %d services, and no more may be", api.ErrService, most)
	}
	s.list = append(s.list, v)
	s.running.Add(1)
	return nil
}

func (s *services) remove(v *service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(o *service) bool { return o == v })
}

// launch takes the ports, and starts the process and what waits for its output and its
// end.
func (s *services) launch(ctx context.Context, v *service) error {
	unpublish := func() {}
	if len(v.req.Publish) > 0 {
		ports, end, err := s.o.Publish(v.req.Publish)
		if err != nil {
			return err
		}
		unpublish = end
		v.mu.Lock()
		v.status.Publish = ports
		v.mu.Unlock()
	}
	if err := s.run(ctx, v, unpublish); err != nil {
		unpublish()
		return err
	}
	return nil
}

// run starts the process; unpublish is called when that has ended.
func (s *services) run(ctx context.Context, v *service, unpublish func()) error {
	r, w, err := frontend.Pipe()
	if err != nil {
		return err
	}
	if err := block(w); err != nil {
		return errors.Join(err, r.Close(), w.Close())
	}
	p, err := s.o.Exec(ctx, hypervisor.Command{ID: s.o.Number(), Argv: v.req.Argv, Env: v.req.Env, Dir: v.req.Dir, Stdout: w, Stderr: w})
	if err != nil {
		_, _ = r.Close(), w.Close()
		return err
	}
	v.mu.Lock()
	v.proc = p
	v.mu.Unlock()
	read := make(chan struct{})
	go func() {
		defer close(read)
		v.read(r)
	}()
	idle := s.o.Busy()
	go func() {
		defer s.running.Done()
		defer idle()
		st, err := p.Wait(context.Background()) // a service ends, or its guest does
		_ = w.Close()                           // not before: a machine's output is copied to it
		_ = r.SetReadDeadline(time.Now().Add(drain))
		<-read
		_ = r.Close()
		unpublish()
		s.o.Ended(v.end(st, err, s.o.Clock.Now()))
	}()
	return nil
}

// read keeps the end of what the service writes.
func (v *service) read(r *os.File) { readOut(r, v.keep) }

// readOut gives keep what a command writes, until the end of it, or the deadline of r: then what is there already, though not what somebody writes for ever. It reports whether the end has come. What keep
// is given is valid until it returns.
func readOut(r *os.File, keep func([]byte)) (end bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		keep(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = r.SetReadDeadline(time.Time{})
			for most := kept; err == nil && most > 0; most -= n {
				n, err = frontend.ReadNow(r, buf)
				keep(buf[:n])
			}
			return errors.Is(err, io.EOF)
		}
		if err != nil {
			return true
		}
	}
}

func (v *service) keep(b []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.total += int64(len(b))
	if v.output = append(v.output, b...); len(v.output) > 2*kept {
		v.output = append(v.output[:0], v.output[len(v.output)-kept:]...)
	}
}

func (v *service) end(st hypervisor.ExitStatus, err error, at time.Time) api.ServiceStatus {
	v.mu.Lock()
	v.status.State, v.status.EndedAt, v.status.Publish = api.ServiceEnded, &at, nil
	if err == nil {
		v.status.ExitCode = &st.Code
	}
	close(v.ended)
	v.mu.Unlock()
	return v.now()
}

func (v *service) now() api.ServiceStatus {
	v.mu.Lock()
	defer v.mu.Unlock()
	st := v.status
	st.OutputBytes = v.total
	return st
}

// List returns all services, in the order in which they were started.
func (s *services) List() []api.ServiceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]api.ServiceStatus, len(s.list))
	for i, v := range s.list {
		out[i] = v.now()
	}
	return out
}

func (s *services) find(name string) (*service, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var have []string
	for _, v := range s.list {
		if v.req.Name == name {
			return v, nil
		}
		have = append(have, v.req.Name)
	}
	if len(have) == 0 {
		return nil, fmt.Errorf("%w %q; there is none in this session", api.ErrNoService, name)
	}
	return nil, fmt.Errorf("%w %q; there is %s", api.ErrNoService, name, strings.Join(have, ", "))
}

// Output returns the newest of what a service has written, at most limit bytes; 0: all
// that is kept.
func (s *services) Output(r api.ServiceOutputRequest) (api.ServiceOutput, error) {
	v, err := s.find(r.Name)
	if err != nil {
		return api.ServiceOutput{}, err
	}
	if r.Limit <= 0 || r.Limit > kept {
		r.Limit = kept
	}
	out := api.ServiceOutput{Service: v.now()}
	v.mu.Lock()
	defer v.mu.Unlock()
	b := v.output[max(0, len(v.output)-r.Limit):]
	out.Data, out.Omitted = slices.Clone(b), v.total-int64(len(b))
	return out, nil
}

// Stop ends a service: TERM, and KILL after 2 s. It returns when it has ended; a service
// that has ended already is left as it is.
func (s *services) Stop(ctx context.Context, name string) (api.ServiceStatus, error) {
	v, err := s.find(name)
	if err != nil {
		return api.ServiceStatus{}, err
	}
	v.mu.Lock()
	p := v.proc
	v.mu.Unlock()
	if p == nil {
		return api.ServiceStatus{}, fmt.Errorf("%w: service %s is being started", api.ErrService, name)
	}
	if v.now().State == api.ServiceRunning {
		if err := p.Cancel(grace); err != nil {
			return v.now(), err
		}
	}
	select {
	case <-v.ended:
		return v.now(), nil
	case <-ctx.Done():
		return v.now(), context.Cause(ctx)
	}
}

// Close takes no more services, and returns when all have ended: whoever calls it has
// ended the guest.
func (s *services) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
}
