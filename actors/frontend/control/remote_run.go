package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/messages/lexical"
)

// told are the events that a client hears while its command runs.
var told = [...]api.EventType{
	api.EventSafeguardTriggered, api.EventSafeguardDecided, api.EventNetwork,
	api.EventWarning, api.EventError, api.EventExternalModification,
}

// run runs a command for a client, whose end cancels it.
func (s *SessionServer) run(ctx context.Context, p runParams, c *Call) (res runResult, err error) {
	if err := s.check(ctx, p, len(c.Files)); err != nil {
		return res, err
	}
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return res, err
	}
	defer done()
	if err := c.Emit(runPart{Accepted: true}); err != nil {
		return res, err
	}
	select {
	case <-s.Started:
	case <-s.Stopped:
		return res, messages.ErrEnding
	case <-ctx.Done():
		if s.ending.Err() != nil {
			return res, messages.ErrEnding
		}
		return res, ctx.Err()
	}
	j := &joined{s: s, c: c, number: s.number()}
	j.origin = api.Origin{Frontend: "cli", Tool: "run", RequestID: "join-" + strconv.FormatUint(j.number, 10)}
	req := api.RunRequest{
		Argv: p.Argv, Env: p.Env, Dir: p.Dir, Timeout: p.Timeout, Wait: true, Share: true, Origin: j.origin, Limits: limitsOf(c.PID),
		Further: p.further(c.Files), Ignored: p.Ignored, Asks: p.Asks,
		Queued:  func(w api.Waits) { _ = c.Emit(runPart{Waits: &w}) }, // the reader notices a broken connection
		Started: func(id undolog.StepID, proc hypervisor.Process) { j.started(ctx, id, proc) },
	}
	if t := p.Terminal; t != nil {
		if req.TTY = (&hypervisor.TTY{Rows: t.Rows, Cols: t.Cols, Term: t.Term}); t.Of != nil {
			req.TTY.Of = *t.Of
		}
		if t.Stops {
			req.TTY.Stopped = func(signal int) { go func() { _ = c.Emit(runPart{Stopped: signal}) }() }
		}
	}
	if p.files() > 0 {
		req.Stdin, req.Stdout, req.Stderr = c.Files[0], c.Files[1], c.Files[2]
	}
	if p.Relayed {
		if j.relayed, err = newRelayed(&req); err != nil {
			return res, err
		}
	}
	unsubscribe := s.Session.Subscribe(j.event, told[:]...)
	r, err := s.Session.Run(ctx, req)
	unsubscribe()
	j.ended()
	if err == nil && r.Outcome == messages.OutcomeCancelled && s.ending.Err() != nil && !j.runs() {
		err = messages.ErrEnding
	}
	if err != nil {
		return res, j.failure(err)
	}
	res = runResult{
		Step: r.Step, ExitCode: r.Status.Code, Signal: r.Status.Signal, Duration: r.Status.Duration, Outcome: r.Outcome, Reason: r.Reason, Limit: r.Status.Limit,
		Others: r.Others, Left: r.Left, Refused: r.Refused, Warned: r.Warnings, Entries: r.Entries,
	}
	res.Only = res.only()
	return res, nil
}

func (s *SessionServer) number() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last
}

// begin lets a command's context end with the session's commands.
func (s *SessionServer) begin(ctx context.Context) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return ctx, nil, messages.ErrEnding
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ending, cancel)
	s.active.Add(1)
	return ctx, func() {
		stop()
		cancel()
		s.active.Done()
	}, nil
}

// End cancels the commands of clients, and returns when they have ended or ctx has.
// No more are taken.
func (s *SessionServer) End(ctx context.Context) {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.end()
	over := make(chan struct{})
	go func() {
		s.active.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// check refuses what the session cannot run or does not have.
func (s *SessionServer) check(ctx context.Context, p runParams, files int) error {
	bad := func(why string) error { return &Error{Code: CodeBadRequest, Message: why} }
	st, err := s.Session.Status(ctx)
	switch {
	case err != nil:
		return messages.ErrEnding
	case len(p.Argv) == 0:
		return bad("no command given")
	case p.Timeout < 0:
		return bad("timeout_ns must not be negative")
	case p.numbered() != "":
		return bad(p.numbered())
	case p.Relayed && (len(p.Further) > 0 || p.Terminal != nil && p.Terminal.Of != nil):
		return bad("what is relayed are three streams, or a terminal that is all of them")
	case p.Relayed && p.Terminal != nil && !copies(st.Isolation):
		return bad("this session passes on terminals: they are not relayed")
	case p.Terminal == nil && files != p.files()+len(p.Further):
		return bad(fmt.Sprintf("stdin, stdout and stderr must come as descriptors, unless they are relayed, and those that are numbered; %d came", files))
	case files != p.files()+len(p.Further):
		return bad("with a terminal that is all of the streams no descriptors are taken but those that are numbered")
	case !slices.ContainsFunc(st.Directories, func(d api.DirectoryStatus) bool { return lexical.Within(p.Dir, d.Path) }):
		return fmt.Errorf("%w: %s is in no working folder of the session", api.ErrOutside, p.Dir)
	case p.files() > 0 && copies(st.Isolation):
		return &Error{Code: CodeRelay, Message: "the session copies what commands read and write: their streams must be relayed"}
	}
	return s.has(st, p.Wants)
}

// copies reports whether an isolation copies what commands read and write, instead of giving them their caller's files.
func copies(isolation string) bool {
	_, lacks := hypervisor.Lacks(isolation, "open files")
	return lacks
}

// offers says whether the session has what a client asks for, and keeps it for as
// long.
func (s *SessionServer) offers(ctx context.Context, w api.Wants) error {
	st, err := s.Session.Status(ctx)
	if err != nil {
		return err
	}
	return s.has(st, w)
}

func (s *SessionServer) has(st api.Status, w api.Wants) error {
	if err := s.hasFolders(st, w.Directories); err != nil {
		return err
	}
	if err := s.hasSettings(w.Settings); err != nil {
		return err
	}
	if w.Keep != 0 && !s.Idle.Extend(w.Keep) {
		return fmt.Errorf("%w: --keep %v: process %d has the session and ends it itself; leave --keep out", api.ErrNotGiven, w.Keep, os.Getpid())
	}
	return nil
}

// advice is what to do about a session that does not have what is asked for.
func advice(flag string) string {
	return "; end the session with 'sandbox stop', or leave " + flag + " out"
}

// hasFolders compares the folders that a client names with the session's.
func (s *SessionServer) hasFolders(st api.Status, want []api.Directory) error {
	for _, d := range want {
		i := slices.IndexFunc(st.Directories, func(h api.DirectoryStatus) bool { return h.Path == d.Path })
		if i < 0 {
			return fmt.Errorf("%w: --working-dir %s: session %s has other working folders%s", api.ErrNotGiven, d.Path, st.Session, advice("it"))
		}
		access := "read_write"
		if d.ReadOnly {
			access = "read_only"
		}
		if have := st.Directories[i]; have.Access != access {
			return fmt.Errorf("%w: --working-dir %s as %s: session %s has it as %s%s", api.ErrNotGiven, d.Path, access, st.Session, have.Access, advice("it"))
		}
		// A client may name the log or the directory of logs that it is in.
		if have := st.Directories[i]; d.UndoDir != "" && d.UndoDir != have.UndoDir && d.UndoDir != filepath.Dir(have.UndoDir) {
			return fmt.Errorf("%w: --undo-dir %s: session %s keeps the log in %s%s", api.ErrNotGiven, d.UndoDir, st.Session, have.UndoDir, advice("it"))
		}
	}
	return nil
}

// hasSettings compares what a client asks for with what the session was started
// with.
func (s *SessionServer) hasSettings(want []api.Setting) error {
	for _, w := range want {
		i := slices.IndexFunc(s.Settings, func(h api.Setting) bool { return h.Flag == w.Flag })
		var have []string
		if i >= 0 {
			have = s.Settings[i].Values
		}
		same := slices.Equal(have, w.Values)
		if w.List {
			same = !slices.ContainsFunc(w.Values, func(v string) bool { return !slices.Contains(have, v) })
		}
		if i < 0 || !same {
			has := strings.Join(have, ", ")
			switch {
			case i >= 0 && have == nil && !w.List:
				has = "nothing of that kind, because of its isolation"
			case has == "":
				has = "none"
			}
			return fmt.Errorf("%w: --%s %s: the session of process %d has %s%s", api.ErrNotGiven, w.Flag, strings.Join(w.Values, ", "), os.Getpid(), has, advice("--"+w.Flag))
		}
	}
	return nil
}

// joined is a client's command.
type joined struct {
	s       *SessionServer
	c       *Call
	origin  api.Origin
	number  uint64
	relayed *relayed // nil: it has the client's files
	// step is 0 until it runs; the Server's mu guards it, and process.
	step    undolog.StepID
	process hypervisor.Process
	stop    func() bool
}

// started tells the client that the command runs.
func (j *joined) started(ctx context.Context, id undolog.StepID, p hypervisor.Process) {
	if j.relayed != nil {
		j.relayed.runs(ctx, p, j.s.fetch)
	}
	j.s.mu.Lock()
	j.step, j.process = id, p
	j.s.runs[j.number] = j
	j.s.mu.Unlock()
	// Its terminal is gone with the client, or somebody asked for its end: what
	// ignores TERM hears of that, too.
	j.stop = context.AfterFunc(ctx, func() { _ = p.Signal(int(syscall.SIGHUP)) })
	var files []*os.File
	if t := p.Terminal(); t != nil && j.relayed == nil {
		files = []*os.File{t}
	}
	_ = j.c.Emit(runPart{Started: &startedPart{id, j.number}}, files...) // the reader notices a broken connection
}

// ended is called when the command has ended, or could not be started.
func (j *joined) ended() {
	if j.stop != nil {
		j.stop()
	}
	if j.relayed != nil && j.runs() {
		j.relayed.finish(j.s.drain)
	} else if j.relayed != nil {
		j.relayed.close()
	}
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	delete(j.s.runs, j.number)
}

// running is the step that the command runs in, or 0.
func (j *joined) running() undolog.StepID {
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	return j.step
}

func (j *joined) runs() bool { return j.running() != 0 }

// failure is why there is no result. A session that ended before the command ran
// has done nothing.
func (j *joined) failure(err error) error {
	if !j.runs() && (errors.Is(err, messages.ErrStopped) || j.s.ending.Err() != nil) {
		return messages.ErrEnding
	}
	return err
}

// event passes on what is about the client's command, about its step, or about
// nobody's.
func (j *joined) event(e api.Event) {
	if !e.Concerns(j.origin, j.running()) {
		return
	}
	e.Err = nil // an interface does not cross; the message says it
	_ = j.c.Emit(runPart{Event: &e})
}

// which names a command of a client: by its number, or by its step if no other
// client's command runs in that.
type which struct {
	Step    undolog.StepID `json:"step_id"`
	Command uint64         `json:"command_id,omitempty"`
}

// process finds the process of a client's command.
func (s *SessionServer) process(w which) (hypervisor.Process, error) {
	j, err := s.client(w)
	if err != nil {
		return nil, err
	}
	return j.process, nil
}

// client finds the command of a client, which runs.
func (s *SessionServer) client(w which) (*joined, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*joined
	for _, j := range s.runs {
		if j.step == w.Step && (w.Command == 0 || j.number == w.Command) {
			found = append(found, j)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%w: step %d is no command of a client", undolog.ErrNoStep, w.Step)
	case 1:
		return found[0], nil
	}
	return nil, &Error{Code: CodeBadRequest, Message: fmt.Sprintf("%d commands run in step %d: name one by its command_id", len(found), w.Step)}
}

// signalParams are those of "signal".
type signalParams struct {
	which
	Signal int `json:"signal"`
}

const maxSignal = 64

func (s *SessionServer) signal(_ context.Context, r signalParams) error {
	if r.Signal < 1 || r.Signal > maxSignal {
		return &Error{Code: CodeBadRequest, Message: fmt.Sprintf("there is no signal %d", r.Signal)}
	}
	p, err := s.process(r.which)
	if err != nil {
		return err
	}
	return p.Signal(r.Signal)
}

// resizeParams are those of "resize".
type resizeParams struct {
	which
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

func (s *SessionServer) resize(_ context.Context, r resizeParams) error {
	p, err := s.process(r.which)
	if err != nil {
		return err
	}
	return p.Resize(r.Rows, r.Cols)
}

func (s *SessionServer) stop(context.Context, api.None) error {
	if s.Stop == nil {
		return fmt.Errorf("%w: process %d has the session for another program and ends it itself", api.ErrNotGiven, os.Getpid())
	}
	s.Stop()
	return nil
}
