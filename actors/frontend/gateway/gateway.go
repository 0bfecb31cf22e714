package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
	"github.com/codeagent/sandbox/actors/frontend/gateway/kube"
	"github.com/codeagent/sandbox/actors/frontend/web"
	"github.com/codeagent/sandbox/supervision"
)

const (
	// EnvdPort is the port by which commands and files of a sandbox are asked for, and that the pods listen at unless it is said otherwise.
	EnvdPort = wire.EnvdPort
	// DefaultReady is how long a claim may take to become ready.
	DefaultReady = 2 * time.Minute
	// MinSecret is how many bytes the secret of the tokens must have.
	MinSecret = 32
	// maxPending is how many claims may be waited for at a time.
	maxPending = 1024
	// syncTime is how long a request waits for what the API server tells of its namespace.
	syncTime = 10 * time.Second
	// grace is how long requests may go on when the gateway ends.
	grace = 30 * time.Second
)

// Options make a [Gateway].
type Options struct {
	// Kube is the API server.
	Kube *kube.Client
	// Keys are the API keys. Each must have a name, which is its tenant's namespace.
	Keys *web.Keys
	// Secret is what the sandboxes' tokens are made of: the same for all replicas.
	Secret []byte
	// Domain is that of host names PORT-ID.DOMAIN; empty: there are none, and sandboxes are named by headers only.
	Domain string
	// PodPort is the port that pods listen at; 0 means [EnvdPort].
	PodPort uint16
	// Ready is how long a claim may take to become ready; 0 means [DefaultReady].
	Ready time.Duration
	// Access says which names and pages may ask the REST API.
	Access web.Access
	// Dial connects to a pod; nil means by TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Clock is the time; nil means the real one.
	Clock supervision.Clock
	// Logger may be nil.
	Logger *slog.Logger
}

// Gateway answers for sandboxes of a cluster. Make it with [New].
type Gateway struct {
	o       Options
	rest    http.Handler
	pods    *http.Transport
	pending chan struct{}
	ending  atomic.Bool

	ctx    context.Context // of the watches
	cancel context.CancelFunc
	watch  sync.WaitGroup

	mu     sync.Mutex
	stores map[string]*kube.Store // by namespace
}

// New makes a gateway, which watches the namespaces of its keys until Close.
func New(o Options) (*Gateway, error) {
	if len(o.Secret) < MinSecret {
		return nil, fmt.Errorf("the secret of the tokens has %d bytes, and must have %d: openssl rand -hex 32 makes one", len(o.Secret), MinSecret)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = supervision.RealClock{}
	}
	if o.PodPort == 0 {
		o.PodPort = EnvdPort
	}
	if o.Ready == 0 {
		o.Ready = DefaultReady
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: dialTime, KeepAlive: 15 * time.Second}).DialContext
	}
	for _, name := range o.Keys.Names() {
		if !isLabel(name) {
			return nil, fmt.Errorf("the keys: %q is no name of a namespace: write it behind the key", name)
		}
	}
	g := &Gateway{o: o, pending: make(chan struct{}, maxPending), stores: map[string]*kube.Store{}}
	g.pods = g.transport()
	g.rest = g.routes()
	g.ctx, g.cancel = context.WithCancel(context.Background())
	for _, name := range o.Keys.Names() {
		g.store(name)
	}
	return g, nil
}

// Close ends the watches.
func (g *Gateway) Close() {
	g.cancel()
	g.watch.Wait()
	g.pods.CloseIdleConnections()
}

// Serve serves on a listener until ctx ends. Requests under way have half a minute then. It closes l.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { g.ending.Store(true) })
	defer stop()
	return web.Serve(ctx, l, g, web.Serving{Logger: g.o.Logger, Grace: grace})
}

// namespaces are those of the keys that there are now. What is no name of one, in a file that has changed since, is nobody's.
func (g *Gateway) namespaces() []string {
	return slices.DeleteFunc(g.o.Keys.Names(), func(name string) bool { return !isLabel(name) })
}

// store is what is known of a namespace; it begins to watch one that is new.
func (g *Gateway) store(namespace string) *kube.Store {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stores[namespace]
	if s == nil {
		s = kube.NewStore(g.o.Kube, namespace, managedLabel+"="+managedValue, g.o.Logger)
		g.stores[namespace] = s
		g.watch.Go(func() { s.Run(g.ctx) })
	}
	return s
}

// find finds a sandbox of a namespace. What the watch has not told yet is asked for.
func (g *Gateway) find(ctx context.Context, namespace, id string) (kube.Claim, error) {
	if !wire.IsID(id) {
		return kube.Claim{}, notFound(id)
	}
	if c, ok := g.store(namespace).Get(id); ok {
		return c, nil
	}
	c, err := g.o.Kube.Claim(ctx, namespace, id)
	switch {
	case kube.Code(err) == http.StatusNotFound, err == nil && c.Metadata.Labels[managedLabel] != managedValue:
		return kube.Claim{}, notFound(id)
	case err != nil:
		return kube.Claim{}, g.cluster(err)
	}
	return c, nil
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, err := wire.AddressOf(r, g.o.Domain)
	if err == nil && a.ID != "" && !wire.IsID(a.ID) {
		err = wire.Fail(http.StatusBadRequest, "%s: it is no id of a sandbox", wire.SandboxHeader)
	}
	switch {
	case err != nil:
		answerError(w, err)
	case a.ID == "":
		g.rest.ServeHTTP(w, r)
	default:
		if err := g.pass(w, r, a); err != nil {
			answerError(w, err)
		}
	}
}

// cluster is what a client is told of an error of the API server's. What is in it may be about the cluster: it goes to the log.
func (g *Gateway) cluster(err error) error {
	var p *wire.Problem
	if errors.As(err, &p) || errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	g.o.Logger.Warn("the API server", "err", err)
	switch code := kube.Code(err); code {
	case http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusBadRequest:
		var s *kube.StatusError
		errors.As(err, &s)
		return wire.Fail(code, "the cluster refuses it: %s", s.Message)
	case http.StatusConflict:
		return wire.Fail(http.StatusConflict, "the sandbox is being changed by somebody else: try again")
	case http.StatusTooManyRequests:
		return wire.Fail(http.StatusTooManyRequests, "the cluster is busy: try again")
	}
	return wire.Fail(http.StatusServiceUnavailable, "the cluster does not answer: try again")
}
