package interceptor

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// fenceTime bounds how long a step's end waits for pages in the guest's cache.
const fenceTime = 5 * time.Second

// job is one lifecycle operation. It runs in three parts: the bridge is fenced
// while mutations go on; then, when nothing is held for a decision, mutations
// are held, the guard is drained and run is called; then done runs in the
// actor. run and after are on a goroutine, one job at a time.
type job struct {
	name string
	// background: needs no fence and no drain; only other lifecycle calls wait.
	background bool
	run        func(ctx context.Context)
	after      func()            // outside the guard: caches are told
	done       func()            // in Receive, unless run panicked
	reply      func(crash error) // in Receive, when everything else is done
	finished   chan struct{}     // closed when run and after have returned
}

// jobs is the queue of lifecycle operations; actor state.
type jobs struct {
	queue   []*job
	fencing *job // for which a fence is under way: the head, or what was it
	ready   bool // the head is fenced
	running *job
}

type fenced struct{ j *job }

type jobDone struct {
	j     *job
	crash error
}

// Fail answers whoever waits for the job, if the actor crashes on the news of its end: the news is lost then.
func (m *jobDone) Fail(err error) { m.j.answer(err) }

func (q *jobs) exclusive() bool { return q.running != nil && !q.running.background }
func (q *jobs) lifecycle() bool { return q.running != nil }
func (q *jobs) waiting() bool   { return q.ready && q.running == nil }

func (q *jobs) fenced(m *fenced) {
	if q.fencing == m.j {
		q.fencing, q.ready = nil, true
	}
}

// enqueueFirst puts j before everything that has not begun. A fence that was made for
// another, or is under way, is good for j.
func (q *jobs) enqueueFirst(j *job) {
	if q.ready && q.queue[0].background {
		q.ready = false
	}
	q.queue = slices.Insert(q.queue, 0, j)
}

// fail answers everything that has not begun.
func (q *jobs) fail(err error) {
	for _, j := range q.queue {
		j.answer(err)
	}
	q.queue = nil
}

// begin fences for the head of the queue.
func (q *jobs) begin(a *Actor) {
	if q.running != nil || q.fencing != nil || q.ready || len(q.queue) == 0 {
		return
	}
	head := q.queue[0]
	if head.background {
		q.ready = true
		return
	}
	q.fencing = head
	go a.h.fence(a.log.With("job", head.name), func() { a.tell(&fenced{head}) })
}

// next starts the head of the queue once it is fenced.
func (q *jobs) next(a *Actor) {
	if !q.waiting() {
		return
	}
	head := q.queue[0]
	q.queue, q.ready, q.running = q.queue[1:], false, head
	head.finished = make(chan struct{})
	if !head.background && a.h.gate.Load() != gateFailing {
		a.h.moveGate(gateHold)
	}
	go a.h.runJob(head, a.tell)
}

// fence makes caches write back what belongs to the step that is open.
func (h *Hooks) fence(log interface{ Warn(string, ...any) }, done func()) {
	defer done()
	b := h.theBridge()
	if b == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), fenceTime)
	defer cancel()
	if err := b.Fence(ctx); err != nil {
		log.Warn("fence incomplete: late writes may land in the next step", "err", err)
	}
}

func (h *Hooks) runJob(j *job, tell func(any)) {
	h.life.Lock()
	defer h.life.Unlock() // after the message: a recovery that waits is told of later
	crash := h.protect(func() {
		if j.background {
			j.run(context.Background())
			return
		}
		h.guard.Drain(func() bool {
			h.noteGranted()
			j.run(context.Background())
			return true
		})
	})
	if crash == nil && j.after != nil {
		j.after()
	}
	close(j.finished)
	tell(&jobDone{j, crash})
}

// protect turns a panic of f into an error.
func (h *Hooks) protect(f func()) (crash error) {
	defer func() {
		if r := recover(); r != nil {
			h.closeGate()
			h.log.Error("undo log panicked",
				"reason", fmt.Sprint(r), "stack", string(debug.Stack()))
			crash = fmt.Errorf("%w: %v", messages.ErrCrashed, r)
		}
	}()
	f()
	return nil
}

func (a *Actor) onDone(m *jobDone) {
	if a.jobs.running != m.j { // it was begun by an earlier instance; what it did holds
		if m.crash == nil && m.j.done != nil {
			m.j.done()
		}
		m.j.answer(m.crash)
		return
	}
	a.jobs.running = nil
	a.standing.err = nil
	if m.crash != nil {
		m.j.answer(m.crash)
		panic(fmt.Sprintf("%s: %v", m.j.name, m.crash))
	}
	if m.j.done != nil {
		m.j.done()
	}
	if id, ok := a.h.o.Log.Current(); ok {
		a.open = id
	} else {
		a.open = 0
		a.idle.Stop()
		a.h.o.Node.SetFact("step", "")
	}
	a.reopen()
	m.j.answer(nil)
	a.readmit()
}

func (j *job) answer(crash error) {
	if j.reply != nil {
		j.reply(crash)
	}
}

// invalidate tells caches what changed behind them.
func (h *Hooks) invalidate(c fsbridge.Changes) {
	b := h.theBridge()
	if b == nil || !c.All && len(c.List) == 0 {
		return
	}
	if err := b.Invalidate(c); err != nil {
		h.log.Warn("caches could not be told of a change", "err", err)
	}
}

// recovery is the result of recoverLog.
type recovery struct {
	a         *Actor
	rec       *undolog.Recovery
	err       error
	restarted bool
}

// recoverLog ends the epoch and lets the log roll back what was open.
func (h *Hooks) recoverLog(a *Actor, restarted bool) {
	m := &recovery{a: a, restarted: restarted}
	h.life.Lock()
	defer h.life.Unlock()
	if crash := h.protect(func() {
		h.guard.Drain(func() bool {
			h.noteGranted()
			if !h.looks.Load() {
				m.rec, m.err = h.o.Log.Recover(context.Background())
			}
			return true
		})
	}); crash != nil {
		m.err = crash
	}
	if m.rec != nil {
		h.invalidate(fsbridge.Changes{All: true})
	}
	a.tell(m)
}

func (a *Actor) onRecovery(m *recovery) {
	if m.a != a {
		return
	}
	a.recovered = true
	if m.err != nil {
		a.h.readOnly(m.err.Error())
	} else {
		a.h.gate.CompareAndSwap(gateCrashed, gateIdle)
		a.h.o.Node.SetState(gateNames[gateIdle])
	}
	if r := m.rec; r != nil {
		a.log.Info("recovered after a crash", "step_id", int64(r.StepID), "restored", r.Restored, "completed_rollback", r.CompletedRollback, "unprotected", r.Unprotected)
	}
	if m.rec != nil && a.h.o.Events.Recovered != nil {
		a.h.o.Events.Recovered(m.rec)
	}
	// What was assigned since has lost nothing.
	if as := a.h.assigned.Load(); as != nil && as == a.before && m.restarted {
		as.failing = true
		a.reopen()
		a.h.o.Owner(&messages.StepFail{
			Step: int64(as.id), Outcome: messages.OutcomeFailed,
			Reason: "the interceptor of " + a.h.o.Directory + " crashed; the step was rolled back",
		})
	}
	for _, w := range a.waiting {
		w.Send(struct{}{}, a.broken())
	}
	a.waiting = nil
}
