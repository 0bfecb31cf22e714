package e2b

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
)

// metadata is what the file of a sandbox says of it.
type metadata struct {
	ID         string            `json:"id"`
	Template   string            `json:"template"`
	Token      string            `json:"token"`                   // of envd
	Traffic    string            `json:"traffic_token,omitempty"` // that the ports of programs inside need; empty: none
	StartedAt  time.Time         `json:"started_at"`
	EndAt      time.Time         `json:"end_at"`
	Life       time.Duration     `json:"life,omitempty"` // that was asked for when it was made
	OnTimeout  string            `json:"on_timeout"`
	AutoResume bool              `json:"auto_resume,omitempty"`
	Offline    bool              `json:"offline,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	Envs       map[string]string `json:"envs,omitempty"`
	UndoDir    string            `json:"undo_dir,omitempty"`
	Paused     bool              `json:"paused,omitempty"` // somebody has asked for that
}

// sandbox is one of the REST API.
type sandbox struct {
	s   *Server
	id  string
	dir string // of all that belongs to it

	turn chan struct{} // filled by whoever starts, pauses, ends or copies it
	gate sync.RWMutex  // held by a copy of its folder, and for reading by whoever begins what could change that

	mu    sync.Mutex
	meta  metadata
	place *place // nil: it is paused
	gone  bool
	stop  func() bool // of the timer of its end
	round int         // counts the timers
}

// home is the folder.
func (sb *sandbox) home() string { return filepath.Join(sb.dir, homeName) }

// take waits for its turn, and returns what gives that back.
func (sb *sandbox) take(ctx context.Context) (func(), error) {
	select {
	case sb.turn <- struct{}{}:
		return func() { <-sb.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// look returns what is known of it now.
func (sb *sandbox) look() (m metadata, p *place, gone bool) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	return sb.meta, sb.place, sb.gone
}

// notFound is the error about a sandbox that is not there.
func notFound(id string) error {
	return wire.Fail(http.StatusNotFound, "the sandbox %s was not found", id)
}

// running is the sandbox for those who use it. One that resumes by itself is started.
func (sb *sandbox) running(ctx context.Context) (*place, error) {
	m, p, gone := sb.look()
	if p != nil && !ended(p.live) {
		return p, nil
	}
	if !gone && m.AutoResume && p == nil {
		return sb.start(ctx, max(m.Life, wire.DefaultTimeout))
	}
	if gone {
		return nil, wire.Fail(wire.StatusGone, "the sandbox %s was not found", sb.id)
	}
	return nil, wire.Fail(wire.StatusGone, "the sandbox %s is paused: connect to it", sb.id)
}

// start starts the session if there is none. The sandbox lives for that long at least: whoever starts it says how long, or it would have no end.
func (sb *sandbox) start(ctx context.Context, life time.Duration) (*place, error) {
	back, err := sb.take(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	p, err := sb.launch(ctx, life)
	if err == nil {
		sb.arm()
	}
	return p, err
}

// launch is start for who has the turn, and who then sets the timer (arm).
func (sb *sandbox) launch(ctx context.Context, life time.Duration) (*place, error) {
	m, p, gone := sb.look()
	switch {
	case gone:
		return nil, notFound(sb.id)
	case p != nil && !ended(p.live):
		return p, sb.save(sb.lasts(life, true))
	case sb.s.draining.Load():
		return nil, ending()
	}
	live, err := sb.s.o.Start(context.WithoutCancel(ctx), StartRequest{Folder: sb.home(), Offline: m.Offline}) // half a start helps nobody
	if err != nil {
		return nil, err
	}
	p, err = sb.s.newPlace(live, withID(m))
	if err == nil {
		m.UndoDir, err = undoDir(ctx, live)
	}
	if err == nil {
		longer := sb.lasts(life, true) // from now on: a start may take long
		err = sb.save(func(now *metadata) {
			now.UndoDir, now.Paused = m.UndoDir, false
			longer(now)
		})
	}
	if err != nil {
		sb.s.closeLive(context.WithoutCancel(ctx), live)
		return nil, err
	}
	p.token = m.Token
	p.started = sb.begins
	sb.mu.Lock()
	sb.place = p
	sb.mu.Unlock()
	return p, nil
}

// withID are the variables of a sandbox's commands.
func withID(m metadata) map[string]string {
	all := map[string]string{"E2B_SANDBOX_ID": m.ID}
	for k, v := range m.Envs {
		all[k] = v
	}
	return all
}

// undoDir is where the undo log is of a session's folder.
func undoDir(ctx context.Context, live api.Live) (string, error) {
	st, err := live.Status(ctx)
	if err != nil {
		return "", err
	}
	return st.Directories[0].UndoDir, nil
}

// begins holds up a copy until what begins has begun.
func (sb *sandbox) begins() func() {
	sb.gate.RLock()
	return sb.gate.RUnlock
}

// rest closes the session: the sandbox is paused then. Its time does not end here any more.
func (sb *sandbox) rest(ctx context.Context) {
	back, err := sb.take(ctx)
	if err != nil {
		return
	}
	defer back()
	sb.disarm()
	sb.halt(ctx)
}

// halt closes the session, if there is one. The caller has the turn.
func (sb *sandbox) halt(ctx context.Context) {
	sb.mu.Lock()
	p := sb.place
	sb.place = nil
	sb.mu.Unlock()
	if p == nil {
		return
	}
	p.endWatchers()
	sb.s.closeLive(context.WithoutCancel(ctx), p.live)
}

// anyRound is for those who end a sandbox whatever was said of its time.
const anyRound = -1

// current tells whether nobody has said anything of the sandbox's time since a timer was set. The caller holds mu.
func (sb *sandbox) current(round int) bool { return round == anyRound || round == sb.round }

// pause closes the session. It fails if there is none. Of a timer, which says its round, it does nothing once there is a later one.
func (sb *sandbox) pause(ctx context.Context, round int) error {
	back, err := sb.take(ctx)
	if err != nil {
		return err
	}
	defer back()
	sb.mu.Lock()
	current, gone, rests := sb.current(round), sb.gone, sb.place == nil
	sb.mu.Unlock()
	switch {
	case !current:
		return nil
	case gone:
		return notFound(sb.id)
	case rests:
		return wire.Fail(http.StatusConflict, "the sandbox %s is paused already", sb.id)
	}
	err = sb.save(func(m *metadata) { m.Paused = true }) // before it is: the next server would end one of which it is not known
	if err != nil && round == anyRound {
		return err
	}
	sb.disarm()
	sb.halt(ctx)
	return err
}

// kill ends the sandbox, and removes all of it; round is as in pause.
func (sb *sandbox) kill(ctx context.Context, round int) error {
	ctx = context.WithoutCancel(ctx)
	back, err := sb.take(ctx)
	if err != nil {
		return err
	}
	defer back()
	sb.mu.Lock()
	current, gone := sb.current(round), sb.gone
	sb.gone = gone || current
	sb.mu.Unlock()
	switch {
	case !current:
		return nil
	case gone:
		return notFound(sb.id)
	}
	sb.disarm()
	sb.halt(ctx)
	sb.s.forget(sb)
	return sb.s.removeSandbox(ctx, sb)
}

// disarm stops the timer of its end.
func (sb *sandbox) disarm() {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if sb.stop != nil {
		sb.stop()
	}
	sb.stop = nil
	sb.round++
}

// lasts changes how long it lives from now on. With atLeast it does not become shorter.
func (sb *sandbox) lasts(d time.Duration, atLeast bool) func(*metadata) {
	end := sb.s.o.Clock.Now().Add(d)
	return func(m *metadata) {
		if !atLeast || end.After(m.EndAt) {
			m.EndAt = end
		}
	}
}

// lives says how long it lives from now on, as in lasts. One that is paused has no end.
func (sb *sandbox) lives(d time.Duration, atLeast bool) error {
	if now, _, _ := sb.look(); now.Paused {
		return wire.Fail(http.StatusConflict, "the sandbox %s is paused: connect to it", sb.id)
	}
	err := sb.save(sb.lasts(d, atLeast))
	if err == nil {
		sb.arm()
	}
	return err
}

// arm has the sandbox end in time, unless it has been paused meanwhile.
func (sb *sandbox) arm() {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if sb.meta.Paused {
		return
	}
	if sb.stop != nil {
		sb.stop()
	}
	sb.round++
	round := sb.round
	left := max(0, sb.meta.EndAt.Sub(sb.s.o.Clock.Now()))
	sb.stop = sb.s.o.Clock.AfterFunc(left, func() { go sb.expire(round) })
}

// expire is the end of a sandbox's time. Whoever starts it, or gives it more time, before this has its turn is first.
func (sb *sandbox) expire(round int) {
	m, _, _ := sb.look()
	do := sb.kill
	if m.OnTimeout == wire.OnTimeoutPause {
		do = sb.pause
	}
	if err := do(context.Background(), round); err != nil && !errors.As(err, new(*wire.Problem)) {
		sb.s.o.Logger.Warn("a sandbox at the end of its time", "component", "e2b", "sandbox", sb.id, "err", err)
	}
}

// save changes what is known, and the file.
func (sb *sandbox) save(change func(*metadata)) error {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if sb.gone {
		return notFound(sb.id)
	}
	m := sb.meta
	change(&m)
	if err := writeJSON(sb.dir, fileName, m); err != nil {
		return frontend.Ours(fmt.Errorf("the sandbox's file: %w", err))
	}
	sb.meta = m
	return nil
}

// traffic tells whether a request may reach the ports of programs inside.
func (sb *sandbox) traffic(r *http.Request) error {
	m, _, _ := sb.look()
	if m.Traffic != "" && !same(r.Header.Get("E2b-Traffic-Access-Token"), m.Traffic) {
		return wire.Fail(http.StatusForbidden, "the ports of this sandbox are not public: send its token in the header e2b-traffic-access-token")
	}
	return nil
}
