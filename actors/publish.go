package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// maxPublished bounds the connections to published ports at a time; more wait.
const maxPublished = 256

type dialFunc func(ctx context.Context, port uint16) (net.Conn, error)

// publisher lets the host connect to ports of the guest. Its methods are safe for
// concurrent use.
type publisher struct {
	dial dialFunc
	log  *slog.Logger

	ctx    context.Context // of the connections
	cancel context.CancelFunc
	slots  chan struct{}
	work   sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
}

// publish listens at the ports that are to be published. A connection for which there
// is no guest yet is reset.
func (s *Session) publish() (err error) {
	if s.cfg.Runtime == nil || len(s.cfg.Network.Publish) == 0 && s.cfg.Network.Settings.None() {
		return nil
	}
	ports, err := policy.ParsePorts(s.cfg.Network.Publish)
	if err != nil {
		return err
	}
	placed, named := placed(ports)
	if s.published, err = newPublisher(placed, s.Dial, s.cfg.Logger.With("component", "network")); err != nil {
		return err
	}
	_, err = s.expose(named)
	return err
}

// expose publishes ports where the session's window says, and returns them with that.
func (s *Session) expose(named []policy.Port) (taken []string, err error) {
	l := s.net.listening.Load()
	for _, p := range named {
		if l == nil {
			return nil, fmt.Errorf("at which port of the host is %s to be reached? Write HOST:%s, or start the session with --network-strategy rewire-port", p, p)
		}
		if p.Listen, _, err = l.expose(p.Guest); err != nil {
			return nil, fmt.Errorf("publishing %d: %w", p.Guest, err)
		}
		taken = append(taken, p.String())
	}
	return taken, nil
}

// placed are the ports that say where they are reached, and named the others, of which the session's window says it.
func placed(ports []policy.Port) (placed, named []policy.Port) {
	for _, p := range ports {
		if p.Listen.IsValid() {
			placed = append(placed, p)
		} else {
			named = append(named, p)
		}
	}
	return placed, named
}

// publishFor publishes ports as long as a service runs. Who asks may be a model: nobody
// but this machine is let in.
func (s *Session) publishFor(texts []string) (taken []string, end func(), err error) {
	ports, err := policy.ParsePorts(texts)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", api.ErrService, err)
	}
	ports, named := placed(ports)
	for _, p := range ports {
		if !p.Listen.Addr().IsLoopback() {
			return nil, nil, fmt.Errorf("%w: %s is not on the loopback; start the session with --publish %s to let other machines in", api.ErrService, p.Listen, p)
		}
		taken = append(taken, p.String())
	}
	if _, ok := s.slot.Guest().(hypervisor.Dialer); !ok {
		why, _ := hypervisor.Lacks(s.cfg.Runtime.Name(), "published ports")
		return nil, nil, fmt.Errorf("%w: %s", errors.ErrUnsupported, why)
	}
	reached, err := s.expose(named)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", api.ErrService, err)
	}
	p, err := newPublisher(ports, s.Dial, s.cfg.Logger.With("component", "network"))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", api.ErrService, err)
	}
	return append(taken, reached...), p.close, nil
}

func newPublisher(ports []policy.Port, dial dialFunc, log *slog.Logger) (*publisher, error) {
	p := &publisher{dial: dial, log: log, slots: make(chan struct{}, maxPublished)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	for _, port := range ports {
		if err := p.add(port); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

// add publishes one more port.
func (p *publisher) add(port policy.Port) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	l, err := net.Listen("tcp", port.Listen.String())
	if err != nil {
		return fmt.Errorf("publishing %s: %w; another program, or another session, may have the port: choose another one", port.Listen, err)
	}
	p.listeners = append(p.listeners, l)
	p.work.Go(func() { p.accept(l, port) })
	return nil
}

// Dial implements [api.Dialer].
func (s *Session) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	guest := s.slot.Guest()
	d, ok := guest.(hypervisor.Dialer)
	switch {
	case guest == nil:
		return nil, errors.New("there is no guest")
	case !ok:
		why, _ := hypervisor.Lacks(s.cfg.Runtime.Name(), "published ports")
		return nil, fmt.Errorf("%w: %s", errors.ErrUnsupported, why)
	}
	return d.Dial(ctx, port)
}

func (p *publisher) accept(l net.Listener, port policy.Port) {
	for {
		select {
		case p.slots <- struct{}{}:
		case <-p.ctx.Done():
			return
		}
		failed := func(err error) { p.log.Warn("a published port", "port", port.String(), "err", err) }
		c, err := frontend.Accept(p.ctx, l.Accept, failed)
		if err != nil {
			<-p.slots
			if p.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				failed(err)
			}
			return
		}
		p.work.Go(func() {
			defer func() { <-p.slots }()
			p.forward(c, port)
		})
	}
}

// forward joins a connection with one to the guest.
func (p *publisher) forward(outside net.Conn, port policy.Port) {
	inside, err := p.dial(p.ctx, port.Guest)
	if err != nil {
		p.log.Info("nobody answers at a published port", "port", port.String(), "err", err)
		abort(outside)
		return
	}
	stop := context.AfterFunc(p.ctx, func() { abort(outside); abort(inside) })
	defer stop()
	var back sync.WaitGroup
	back.Go(func() { pipe(outside, inside) })
	pipe(inside, outside)
	back.Wait()
	_ = inside.Close()
	_ = outside.Close()
}

// pipe copies until the end, which it passes on; a failure ends both connections.
func pipe(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err == nil {
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			err = half.CloseWrite()
		}
	}
	if err != nil {
		abort(to)
		abort(from)
	}
}

// abort ends a connection so that its other end is told of a failure.
func abort(c net.Conn) {
	if l, ok := c.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0)
	}
	_ = c.Close()
}

// close ends the listeners and all connections.
func (p *publisher) close() {
	if p == nil {
		return
	}
	p.cancel()
	p.mu.Lock()
	p.closed = true
	for _, c := range p.listeners {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}
