package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
)

const (
	progressEvery = 100 * time.Millisecond // at most one notification in this time
	progressIdle  = 5 * time.Second        // and one in this time at least
	progressBytes = 4 << 10                // of output in one notification
)

// progress tells a client that gave a token what a command writes. It never
// delays the command: what a slow client does not take is left out, and is in
// the result.
type progress struct {
	clock api.Clock
	token any
	tell  func(context.Context, *sdk.ProgressNotificationParams) error
	begin time.Time
	ctx   context.Context // ends with stop
	end   context.CancelFunc

	mu    sync.Mutex
	text  []byte // not yet sent, the newest
	lost  int
	timer func() bool
	soon  bool // the timer is for output, not for silence

	sending sync.Mutex // held while a notification is written
	last    float64    // guarded by sending
}

// newProgress returns nil, which can be used, if the client wants none.
func newProgress(clock api.Clock, req *sdk.CallToolRequest) *progress {
	if req.Params.GetProgressToken() == nil {
		return nil
	}
	return startProgress(clock, req.Params.GetProgressToken(), req.Session.NotifyProgress)
}

func startProgress(clock api.Clock, token any, tell func(context.Context, *sdk.ProgressNotificationParams) error) *progress {
	p := &progress{clock: clock, token: token, tell: tell, begin: clock.Now()}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.timer = clock.AfterFunc(progressIdle, p.send)
	return p
}

// Write implements [io.Writer]; it never fails.
func (p *progress) Write(b []byte) (int, error) {
	if p == nil {
		return len(b), nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = append(p.text, b[max(0, len(b)-progressBytes):]...)
	p.lost += max(0, len(b)-progressBytes)
	if over := len(p.text) - progressBytes; over > 0 {
		p.lost += over
		p.text = append(p.text[:0], p.text[over:]...)
	}
	if !p.soon && p.ctx.Err() == nil && p.timer() { // else it is over, and send takes the text or sets the next one
		p.soon = true
		p.timer = p.clock.AfterFunc(progressEvery, p.send)
	}
	return len(b), nil
}

// send sends what there is. It runs on a goroutine of the clock's.
func (p *progress) send() {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.mu.Lock()
	text := frontend.Valid(string(p.text))
	if p.lost > 0 {
		text = fmt.Sprintf("[... %d bytes left out ...]\n%s", p.lost, text)
	}
	p.text, p.lost = p.text[:0], 0
	p.mu.Unlock()
	elapsed := p.clock.Now().Sub(p.begin).Seconds()
	if text == "" {
		text = fmt.Sprintf("running for %.0f s", elapsed)
	}
	if elapsed <= p.last {
		elapsed = p.last + 0.001 // it has to grow
	}
	p.last = elapsed
	if p.ctx.Err() != nil {
		return // the result is out: nothing may follow
	}
	_ = p.tell(p.ctx, &sdk.ProgressNotificationParams{ProgressToken: p.token, Progress: elapsed, Message: text}) // a client that is gone cancels the call
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	p.soon = len(p.text) > 0
	next := progressIdle
	if p.soon {
		next = progressEvery
	}
	p.timer = p.clock.AfterFunc(next, p.send)
}

// stop returns when no notification will follow.
func (p *progress) stop() {
	if p == nil {
		return
	}
	p.end()
	p.mu.Lock()
	p.timer()
	p.mu.Unlock()
	p.sending.Lock()
	defer p.sending.Unlock()
}
