package kube

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/codeagent/sandbox/supervision"
)

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

// Backoff are pauses that double, from a tenth of a second to ten seconds. It is not safe for concurrent use. The zero value is ready.
type Backoff struct {
	// Most is the longest pause; 0: ten seconds.
	Most time.Duration
	next time.Duration
}

// Reset begins again with a short pause.
func (b *Backoff) Reset() { b.next = 0 }

// Pause waits: at least for as long as err wants it to ([StatusError]), and up to a half more by chance. It returns the cause of ctx when that ends first.
func (b *Backoff) Pause(ctx context.Context, clock supervision.Clock, err error) error {
	b.next = min(max(2*b.next, firstPause), cmp.Or(b.Most, lastPause))
	d := b.next
	if s := (*StatusError)(nil); errors.As(err, &s) {
		d = max(d, s.RetryAfter)
	}
	d += rand.N(d/2 + 1)
	over := make(chan struct{})
	stop := clock.AfterFunc(d, func() { close(over) })
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		stop()
		return context.Cause(ctx)
	}
}

// Within returns a context that ends after d, with the cause [context.DeadlineExceeded]. cancel must be called.
func Within(ctx context.Context, clock supervision.Clock, d time.Duration) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(ctx)
	stop := clock.AfterFunc(d, func() { end(context.DeadlineExceeded) })
	return ctx, func() { stop(); end(nil) }
}

// mostRefusals is how often something is tried that a server which is not ready refuses.
const mostRefusals = 6

// Retry calls f until it succeeds, fails for good, or ctx ends. Then it returns what f said last, with the cause. A server that has just started serves before it knows who may do what: what it refuses is tried
// again until it says that it is ready, and once more then.
func (c *Client) Retry(ctx context.Context, f func(context.Context) error) error {
	var pause Backoff
	refusals := 0
	for {
		err := f(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errors.Join(err, context.Cause(ctx))
		case Code(err) == http.StatusForbidden && refusals < mostRefusals:
			if refusals++; c.ready(ctx) {
				refusals = mostRefusals
				continue
			}
		case !Passing(err):
			return err
		}
		if cause := pause.Pause(ctx, c.clock, err); cause != nil {
			return errors.Join(err, cause)
		}
	}
}

// ready tells whether the server says that it is ready.
func (c *Client) ready(ctx context.Context) bool {
	return c.do(ctx, request{method: http.MethodGet, path: "/readyz"}, maxAnswer, nil) == nil
}
