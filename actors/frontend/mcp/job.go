package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages/logctx"
	"github.com/codeagent/sandbox/supervision"
)

// job is work that may outlive its call: it goes on while a person decides.
type job struct {
	handle  string
	tool    string
	started time.Time
	cancel  context.CancelFunc
	done    chan struct{}
	// result is set before done is closed.
	result any
	err    error

	mu      sync.Mutex
	pending []api.Pending   // undecided, oldest first
	changed chan struct{}   // closed and replaced when pending changes
	asked   map[string]bool // safeguards that a client's person was asked about
}

// start runs f as a job for the call of ctx. The job's context ends with cancel
// or with the server, not with the call. f gets the origin that the session's
// events will name.
func (s *Server) start(call context.Context, live api.Live, tool string, f func(ctx context.Context, from api.Origin) (any, error)) *job {
	j := &job{
		handle: rand.Text(), tool: tool, started: s.clock.Now(),
		done: make(chan struct{}), changed: make(chan struct{}), asked: map[string]bool{},
	}
	about := logctx.From(call)
	var ctx context.Context
	ctx, j.cancel = context.WithCancel(logctx.With(s.ctx, about))
	from := api.Origin{Frontend: "mcp", RequestID: about.RequestID, Tool: tool}
	unsubscribe := live.Subscribe(func(e api.Event) { j.hear(e, from) }, api.EventSafeguardTriggered, api.EventSafeguardDecided)
	s.wg.Go(func() {
		supervision.GrowStack()
		defer j.cancel()
		defer unsubscribe()
		j.result, j.err = f(ctx, from)
		close(j.done)
		runtime.Gosched() // the answer goes first
		if err := s.ready.prepare(); err != nil {
			s.log.DebugContext(ctx, "nothing prepared for the next command", "err", err)
		}
		s.log.DebugContext(ctx, "tool call done", "op", tool, "took", s.clock.Now().Sub(j.started), "err", j.err)
	})
	return j
}

// hear notes safeguards that hold this job: those of its own step, and, for a
// write that joined the step of a command, of whatever step is open, but not those of other commands.
func (j *job) hear(e api.Event, from api.Origin) {
	mine := e.Origin == from || j.tool != "execute_command" && e.Caller == (api.Origin{})
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case e.Type == api.EventSafeguardTriggered && e.Pending != nil && mine:
		j.pending = append(j.pending, *e.Pending)
	case e.Type == api.EventSafeguardDecided && e.Decision != nil:
		j.forget(e.Decision.ID)
		return
	default:
		return
	}
	j.tell()
}

// decided notes a decision whose event is still on its way.
func (j *job) decided(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forget(id)
}

// forget takes a decided safeguard off the list. The caller holds mu.
func (j *job) forget(id string) {
	j.pending = slices.DeleteFunc(j.pending, func(p api.Pending) bool { return p.ID == id })
	j.tell()
}

// tell wakes who waits for a change. The caller holds mu.
func (j *job) tell() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// held returns the oldest undecided safeguard and a channel that tells of
// changes.
func (j *job) held() (*api.Pending, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.pending) == 0 {
		return nil, j.changed
	}
	p := j.pending[0]
	return &p, j.changed
}

// ask reports whether nobody was asked about the safeguard by this job before.
func (j *job) ask(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := !j.asked[id]
	j.asked[id] = true
	return first
}

var errManyJobs = fmt.Errorf("%d results are waiting to be fetched or decided already: fetch them with get_result", maxJobs)

// keep lets the job be found by its handle after its call.
func (s *Server) keep(j *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[j.handle] != nil {
		return nil
	}
	if len(s.jobs) >= maxJobs && !s.dropOldest() {
		return errManyJobs
	}
	s.jobs[j.handle] = j
	s.wg.Go(func() { // its result is forgotten after a while
		<-j.done
		s.clock.AfterFunc(jobRetention, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.jobs, j.handle)
		})
	})
	return nil
}

// dropOldest forgets the oldest result that nobody fetched. The caller holds mu.
func (s *Server) dropOldest() bool {
	var oldest *job
	for _, j := range s.jobs {
		select {
		case <-j.done:
			if oldest == nil || j.started.Before(oldest.started) {
				oldest = j
			}
		default:
		}
	}
	if oldest != nil {
		delete(s.jobs, oldest.handle)
	}
	return oldest != nil
}

var errNoHandle = errors.New("no such handle: its result is older than ten minutes, or never was; get_undo_history shows what was done")

func (s *Server) job(handle string) (*job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[handle]; j != nil {
		return j, nil
	}
	return nil, errNoHandle
}

// kept returns the jobs that handles name, oldest first.
func (s *Server) kept() []*job {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*job
	for _, j := range s.jobs {
		list = append(list, j)
	}
	slices.SortFunc(list, func(a, b *job) int { return a.started.Compare(b.started) })
	return list
}
