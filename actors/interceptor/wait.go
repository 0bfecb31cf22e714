package interceptor

import (
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/messages"
)

// pollInterval is how often an interrupted process is looked at.
const pollInterval = 20 * time.Millisecond

// request asks the actor about one mutation. The waiting goroutine owns it; the
// actor keeps it only until it is answered.
type request struct {
	op   fsbridge.Kind
	safe string // the kind of safeguard it counts for
	path string // set if safe is
	// protected, if not nil, is decided about first.
	protected *protection
	bytes     int64  // request data that waits with it
	admitted  uint64 // epoch in which it was counted and admitted before
	reply     *messages.Reply[uint64]
	deadline  atomic.Int64 // unix nanoseconds; 0: none at the moment
	held      func(uint64) // fsbridge.Op.Held, nil for none
	number    uint64       // fsbridge.Op.Request
	pid       uint32       // fsbridge.Op.PID
	callers   []messages.Process
}

// Fail answers with EIO: the actor panicked over it.
func (r *request) Fail(error) { r.reply.Fail(fsbridge.ErrFailed) }

// LogValue leaves the path out.
func (r *request) LogValue() slog.Value { return slog.StringValue(r.op.String()) }

// abandoned tells the actor that nobody waits for the request any more.
type abandoned struct{ r *request }

// crashed makes the actor panic.
type crashed struct{ reason any }

// ask sends op to the actor and returns the epoch for which it is admitted. The
// caller does not hold the guard.
func (h *Hooks) ask(op *fsbridge.Op, kind string, admitted uint64, guarded *protection) (uint64, error) {
	r := &request{
		op: op.Kind, safe: kind, admitted: admitted, reply: messages.NewReply[uint64](),
		held: op.Held, number: op.Request, protected: guarded, pid: op.PID,
	}
	if guarded != nil && !guarded.deny { // a question, probably
		r.callers = h.callers(op.PID)
	}
	if op.Kind == fsbridge.OpWrite && !op.Ahead {
		r.bytes = op.Len
	}
	if kind != "" {
		r.path = opPath(op)
	}
	r.deadline.Store(h.o.Clock.Now().Add(h.o.ReplyDeadline).UnixNano())
	h.send(r)
	return h.wait(r, op)
}

// wait returns the answer, or gives up when the actor does not live or the
// asking process dies.
func (h *Hooks) wait(r *request, op *fsbridge.Op) (uint64, error) {
	alarm := func(d time.Duration) (<-chan struct{}, func() bool) {
		ch := make(chan struct{})
		return ch, h.o.Clock.AfterFunc(d, func() { close(ch) })
	}
	timeout, stopTimeout := alarm(h.o.ReplyDeadline)
	defer func() { stopTimeout() }()
	cancel := op.Cancel
	var thread uint32 // that asks, as the host numbers it; 0: not known yet
	var poll <-chan struct{}
	stopPoll := func() bool { return false }
	defer func() { stopPoll() }()
	for {
		select {
		case res := <-r.reply.C():
			return res.Value, res.Err
		case <-timeout:
			left := h.o.ReplyDeadline
			if at := r.deadline.Load(); at != 0 {
				left = time.Duration(at - h.o.Clock.Now().UnixNano())
			}
			if left <= 0 {
				h.log.Error("no answer from the interceptor", "op", r.op.String())
				return h.abandon(r, fsbridge.ErrFailed)
			}
			timeout, stopTimeout = alarm(left)
			continue
		case <-cancel:
			if op.Ours {
				return h.abandon(r, fsbridge.ErrInterrupted)
			}
			cancel = nil
		case <-poll:
		}
		// Interrupted: by a signal that kills, or by one that does not?
		if h.dying(op.PID, &thread) {
			return h.abandon(r, fsbridge.ErrInterrupted)
		}
		poll, stopPoll = alarm(pollInterval)
	}
}

// callers are the process of a thread of the guest, and its parents. It reads files: no actor waits for it.
func (h *Hooks) callers(pid uint32) (list []messages.Process) {
	if f := h.hostPID.Load(); f != nil && pid != 0 {
		var err error
		if pid, err = (*f)(pid); err != nil {
			return nil
		}
	}
	for _, p := range h.who.Of(int(pid)) {
		list = append(list, messages.Process(p))
	}
	return list
}

// dying reports whether the thread pid of the guest will never return to user
// space. Its number on the host is looked for once.
func (h *Hooks) dying(pid uint32, host *uint32) bool {
	if pid == 0 { // write-back
		return false
	}
	if *host == 0 {
		*host = pid
		if f := h.hostPID.Load(); f != nil {
			var err error
			if *host, err = (*f)(pid); err != nil {
				*host = 0
				return errors.Is(err, os.ErrProcessDone)
			}
		}
	}
	return h.o.Dying(*host)
}

// abandon takes the request back, unless the answer was faster.
func (h *Hooks) abandon(r *request, err error) (uint64, error) {
	if r.reply.Send(0, err) {
		h.send(&abandoned{r})
	}
	res := <-r.reply.C()
	return res.Value, res.Err
}
