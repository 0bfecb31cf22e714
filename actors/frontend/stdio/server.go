package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/messages/logctx"
	"github.com/codeagent/sandbox/supervision"
)

const (
	// goodbye is how long requests in flight may take once the client has gone
	// before everything is cancelled, and how long it may read nothing of what is
	// left before that is given up.
	goodbye = 5 * time.Second
	// closing bounds the end of a session.
	closing = 30 * time.Second
)

// Why requests are cancelled.
var (
	errClientGone = &Error{Code: Cancelled, Message: "the client has disconnected"}
	errCancelled  = &Error{Code: Cancelled, Message: "cancelled by agent.cancel"}
	errStopping   = &Error{Code: SessionEnded, Message: "the session is being stopped"}
	errLeaving    = &Error{Code: SessionEnded, Message: "the conversation ends: no request is taken any more"}
)

// Options make a [Server].
type Options struct {
	// In and Out are the two directions. A Read of In that is under way when
	// Serve returns is abandoned.
	In  io.Reader
	Out io.Writer
	// Start makes the session that a client asks for. ctx bounds the start only.
	// It may return an *[Error] to choose the code. note tells the client, once
	// the session has started, of what it asked for and does not get.
	Start func(ctx context.Context, r StartRequest, note func(Notice)) (api.Live, error)
	// Elsewhere, which may be nil, is asked about each session.start that is in order while there is no session. It may return a process that has the session
	// in our place; with nil the session is ours.
	Elsewhere func(r StartRequest) Other
	// Takes, which may be nil, is asked about each session.start before it is carried out, and told whether there is a session. If it returns false, the
	// conversation is over, and the request is not answered: we are the [Other] of a program that takes it.
	Takes func(exists bool) bool
	// DefaultDirectories says that Start has working directories of its own for
	// a request that names none.
	DefaultDirectories bool
	// OnSession, which may be nil, is told of the session when it has started and
	// gets nil before it is closed, or when it has ended by itself. Calls do not
	// overlap.
	OnSession func(api.Live)
	// Classify says what a command seems to do and what looks suspicious about
	// its text; nil leaves that out. It is advice and decides nothing. It must be
	// safe for concurrent use.
	Classify func(argv []string) (class string, warnings []Suspicion)
	// DefaultTimeout is that of a command without a timeout of its own; 0: none.
	DefaultTimeout time.Duration
	// AgentCommand is what agent.prompt runs; empty means that there is none.
	AgentCommand []string
	// Environ is the environment of commands as "K=V", to which requests add;
	// nil lets the runtime choose, unless a request adds to it.
	Environ []string
	// Version is the program's.
	Version string
	// Logger may be nil.
	Logger *slog.Logger
	// Clock is injected by tests; nil means the real one.
	Clock api.Clock
}

// Server speaks the protocol with one client.
type Server struct {
	o     Options
	log   *slog.Logger
	clock api.Clock
	ops   map[string]*operation
	lines *frontend.Lines
	out   *queue
	heavy chan struct{}
	batch statusBatch

	ctx    context.Context // everything ends with it
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // handlers; Add with mu, and not once leaving

	mu       sync.Mutex          // leaving, inflight, places, session, starting, mismatch, other
	leaving  bool                // the conversation ends, although the client may still send
	inflight map[string]*request // until the response is queued
	places   [2]int              // taken until the response is written; of control requests the second
	session  *session
	starting bool
	// mismatch is the undo directory for which the last start failed.
	mismatch string
	other    Other // has the session, or had the last one; nil: there was none

	// turn is closed when the lifecycle requests read so far have been carried
	// out. The reader's own.
	turn chan struct{}
	// again is a line that came back from another process. The reader's own.
	again []byte
	// newest is the command that was sent last. The reader's own.
	newest *request
	// gone gets why the conversation ends: the reader's, the writer's and the
	// connection's actor's reasons, of which the first counts.
	gone chan error
	// telling serialises OnSession; never taken with mu.
	telling sync.Mutex
}

// New makes a Server. Call Serve once.
func New(o Options) *Server {
	s := &Server{
		o: o, log: o.Logger, clock: o.Clock, lines: frontend.NewLines(o.In, MaxLine), out: newQueue(), heavy: make(chan struct{}, maxHeavy),
		inflight: map[string]*request{}, turn: make(chan struct{}), gone: make(chan error, 3),
	}
	close(s.turn)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.log = slog.New(logctx.New(s.log.Handler(), logctx.Options{Component: "stdio_api"}))
	if s.clock == nil {
		s.clock = supervision.RealClock{}
	}
	s.batch.s = s
	s.ops = map[string]*operation{}
	for _, op := range operations() {
		s.ops[op.name] = op
	}
	return s
}

// Serve talks to the client until it disconnects or ctx ends. Then running
// commands are cancelled (their steps closed, and undoable), other requests are
// finished, the session is closed and what is left is written. A request that comes meanwhile is refused. The error is nil
// when the client closed its end, else why the conversation ended.
func (s *Server) Serve(ctx context.Context) error {
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	defer s.cancel(errClientGone)
	gone := s.gone
	written := make(chan struct{})
	go func() {
		defer close(written)
		if err := s.out.Run(s.o.Out); err != nil {
			gone <- err
		}
	}()
	go func() { gone <- s.read() }()
	var why error
	select {
	case why = <-gone:
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	if errors.Is(why, io.EOF) {
		why = nil
	}
	s.log.Info("client disconnected", "err", why)
	patient := s.leave()
	s.out.Close()
	if !s.flush(written, patient) {
		s.log.Warn("the client did not read everything")
	}
	return why
}

// flush waits until everything is written, and gives up when the client reads
// nothing for a while, or at once if that is known.
func (s *Server) flush(written <-chan struct{}, patient bool) bool {
	for patient {
		before, expired := s.out.Progress(), make(chan struct{})
		stop := s.clock.AfterFunc(goodbye, func() { close(expired) })
		select {
		case <-written:
			stop()
			return true
		case <-expired:
			patient = s.out.Progress() != before
		}
	}
	select {
	case <-written:
		return true
	default:
		return false
	}
}

// leave takes no more requests, ends commands, waits for other requests and closes the session. It
// returns false if the client has read nothing all that time, although it could.
func (s *Server) leave() (patient bool) {
	var deaf atomic.Bool
	before := s.out.Progress()
	stop := s.clock.AfterFunc(goodbye, func() {
		deaf.Store(s.out.Stuck(before))
		s.cancel(errClientGone)
	})
	defer stop()
	s.mu.Lock()
	s.leaving = true
	for _, rq := range s.inflight {
		if rq.op.flags&runs != 0 {
			rq.cancel(errClientGone)
		}
	}
	s.mu.Unlock()
	s.leaveOther()
	s.wg.Wait()
	if sess := s.current(); sess != nil {
		if err := s.closeSession(context.WithoutCancel(s.ctx), sess); err != nil {
			s.log.Error("close the session", "err", err)
		}
	}
	return !deaf.Load()
}

// read takes lines until the client is gone.
func (s *Server) read() error {
	for {
		line, err := s.again, error(nil)
		if s.again = nil; line == nil {
			line, err = s.lines.Next()
		}
		if errors.Is(err, frontend.ErrLineTooLong) {
			err = s.refuse(skipped(s.lines.Skip("request_id")), &Error{
				Code: MessageTooLarge, Message: "the line is longer than 1048576 bytes and was skipped",
			})
		} else if err == nil && !frontend.Blank(line) {
			err = s.take(line)
		}
		if err != nil {
			return err
		}
	}
}

// skipped is the envelope of a line that was not kept; value is its request_id
// as JSON.
func skipped(value []byte) (e envelope) {
	if frontend.CheckJSON(value) == nil && value[0] == '"' {
		e.RequestID = frontend.Unquote(value)
		e.hasID = e.RequestID != "" && len(e.RequestID) <= MaxRequestID
	}
	return e
}

// take carries one line out or refuses it. An error ends the conversation.
func (s *Server) take(line []byte) error {
	e, bad := parseEnvelope(line)
	if bad != nil {
		return s.refuse(e, bad)
	}
	if e.Type == startOp && s.o.Takes != nil {
		if err := s.takes(); err != nil {
			return err
		}
	}
	op := s.ops[e.Type]
	if op == nil {
		return s.refuse(e, &Error{Code: UnknownOperation, Field: "type", Message: "unknown operation " + frontend.Short([]byte(e.Type))})
	}
	payload := op.payload()
	if bad := decode(e.Payload, payload); bad != nil {
		if bad.Code == UnknownField || bad.Code == MissingField || bad.Code == InvalidField {
			bad.Message = op.name + ": " + bad.Message
		}
		return s.refuse(e, bad)
	}
	if p, ok := payload.(*StartRequest); ok && s.o.Elsewhere != nil {
		if moved, err := s.elsewhere(line, e, p); moved {
			return err
		}
	}
	rq := &request{s: s, id: e.RequestID, op: op, payload: payload}
	if bad := s.admit(rq); bad != nil {
		return s.refuse(e, bad)
	}
	rq.logs(op.level(), "request received", "op", op.name)
	if op.flags&batched != 0 {
		s.batch.add(rq)
		return nil
	}
	rq.after = s.turn
	if op.flags&lifecycle != 0 {
		rq.done = make(chan struct{})
		s.turn = rq.done
	}
	if op.flags&runs != 0 {
		rq.entered, rq.behind = make(chan struct{}), s.newest
		s.newest = rq
	}
	go rq.handle()
	return nil
}

// admit puts the request among those in flight. Unless it is one of a batch, leave waits for its handler from now on.
func (s *Server) admit(rq *request) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return errLeaving
	}
	if _, twice := s.inflight[rq.id]; twice {
		return fieldError(DuplicateRequestID, "request_id", "%q is in flight", rq.id)
	}
	kind := rq.op.kind()
	if s.places[kind] >= [2]int{MaxInFlight, MaxControl}[kind] {
		return &Error{Code: TooManyRequests, Message: "too many requests are in flight; wait for responses"}
	}
	s.places[kind]++
	rq.ctx, rq.cancel = s.ctx, func(error) {}
	if rq.op.flags&batched == 0 { // nobody can cancel one of a batch, nor is anything done in its name
		rq.ctx, rq.cancel = context.WithCancelCause(logctx.With(s.ctx, logctx.Fields{RequestID: rq.id}))
		s.wg.Add(1)
	}
	s.inflight[rq.id] = rq
	return nil
}

// vacate gives n places back.
func (s *Server) vacate(kind, n int) {
	s.mu.Lock()
	s.places[kind] -= n
	s.mu.Unlock()
}

// refuse answers what is not in flight. It waits while the client does not
// read.
func (s *Server) refuse(e envelope, bad *Error) error {
	var id *string
	if e.hasID {
		id = &e.RequestID
	}
	bad = toError(bad)
	s.log.Warn("request refused", "request_id", e.RequestID, "op", frontend.Short([]byte(e.Type)), "code", bad.Code, "field", bad.Field)
	return s.out.Put(s.ctx, outboxItem{Class: refusalClass, Head: refusal(id, bad)})
}

// emit queues an event.
func (s *Server) emit(ctx context.Context, c outboxClass, name string, payload any) error {
	p, err := marshal(payload)
	if err != nil {
		return err
	}
	b := make([]byte, 0, len(p)+len(name)+32)
	b = append(append(append(b, `{"type":"`...), name...), `","payload":`...)
	return s.out.Put(ctx, outboxItem{Class: c, Head: append(append(b, p...), '}', '\n')})
}

func (s *Server) current() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

// Operations lists the requests' names.
func Operations() []string {
	var list []string
	for _, op := range operations() {
		list = append(list, op.name)
	}
	slices.Sort(list)
	return list
}

// success is how a response to what was carried out begins; [ending] is the
// rest.
func success(id string) []byte {
	return appendSuccess(make([]byte, 0, len(id)+headSize), id)
}

// headSize is how much longer it is than an id that needs no escapes.
const headSize = 48

func appendSuccess(b []byte, id string) []byte {
	b = append(b, `{"type":"response","request_id":`...)
	return append(appendQuoted(b, id), `,"status":"ok"`...)
}

func ending(payload json.RawMessage) []byte {
	if payload == nil || string(payload) == "{}" {
		return []byte("}\n")
	}
	b := make([]byte, 0, len(payload)+16)
	return append(append(append(b, `,"payload":`...), payload...), '}', '\n')
}

// refusal is a response that is an error; id is nil where the request's could
// not be read.
func refusal(id *string, bad *Error) []byte {
	b := []byte(`{"type":"response","request_id":`)
	if id != nil {
		b = appendQuoted(b, *id)
	} else {
		b = append(b, "null"...)
	}
	b = append(append(b, `,"status":"error","error":`...), encodeError(bad)...)
	return append(b, '}', '\n')
}

// appendQuoted appends s as JSON has it.
func appendQuoted(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := marshal(s)
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
