package interceptor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/gate"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/messages/logctx"
)

// The gate's positions. The actor moves it; only crash may be set by others,
// and only a recovery leaves it.
const (
	gateIdle     uint32 = iota // no step is open: the first mutation asks
	gateOpen                   // a step is open and nothing is pending
	gateHold                   // everything asks, and will be held
	gateFailing                // the step will be rolled back: EPERM
	gateCrashed                // until the log has recovered: EIO
	gateReadOnly               // the log cannot keep anything: EROFS
	gateClosed                 // the session has ended: EIO
)

// levelTrace is the log's level below debug.
const levelTrace = slog.LevelDebug - 4

var gateNames = []string{"idle", "open", "held", "failing", "recovering", "read_only", "closed"}

// Hooks is the bridges' side of the Interceptor. It outlives restarts of the
// actor. Methods are safe for concurrent use.
type Hooks struct {
	o       Options
	log     *slog.Logger
	debug   bool // a line for each capture
	trace   bool // a line for each mutation
	guard   fsbridge.Guard
	gate    atomic.Uint32
	writes  atomic.Pointer[Writes]
	targets atomic.Pointer[[][]string] // what git is told to run
	passes  atomic.Pointer[passes]
	above   []string
	last    atomic.Int64 // unix nanoseconds of the newest mutation
	changes atomic.Int64 // mutations, and what counts as one
	count   atomic.Int64 // captures
	granted atomic.Int64 // see Granted
	safe    atomic.Pointer[armed]
	// yes holds the kinds of safeguard that were allowed in an epoch:
	// epoch<<8 | bits.
	yes  atomic.Uint64
	tell atomic.Pointer[messages.Tell]
	life sync.Mutex // held around lifecycle calls of the log

	bridge   atomic.Pointer[bridgeBox]
	who      *gate.ProcessReader
	hostPID  atomic.Pointer[func(uint32) (uint32, error)]
	assigned atomic.Pointer[assignment]
	started  atomic.Bool
	looks    atomic.Bool // see Options.Looks

	mu      sync.Mutex
	problem string
}

type bridgeBox struct{ b fsbridge.Bridge }

var _ interface {
	fsbridge.Interceptor
	fsbridge.LinkHolder
} = (*Hooks)(nil)

// Held implements [fsbridge.LinkHolder].
func (h *Hooks) Held(id hostfs.ID) int { return h.o.Log.Held(id) }

// New makes the hooks of one directory. Until the actor has recovered the log
// every mutation fails with ErrFailed.
func New(o Options) *Hooks {
	if o.AmbientIdle == 0 {
		o.AmbientIdle = messages.AmbientIdle
	}
	if o.ReplyDeadline == 0 {
		o.ReplyDeadline = 5 * time.Second
	}
	if o.Dying == nil {
		o.Dying = dying
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Hooks{o: o, who: gate.NewProcessReader(), log: o.Logger.With("component", "undo", "directory", o.Directory), above: aboveOf(o.Directory)}
	h.looks.Store(o.Looks)
	h.takeWrites()
	h.debug, h.trace = h.log.Enabled(context.Background(), slog.LevelDebug), h.log.Enabled(context.Background(), levelTrace)
	h.SetSafeguards(o.Safeguards)
	h.gate.Store(gateCrashed)
	return h
}

// armed is the safeguards that hold now.
type armed struct {
	Safeguards
	armed bool
}

// SetSafeguards changes the safeguards. What is held already stays held, and
// what was allowed in a step stays allowed in it.
func (h *Hooks) SetSafeguards(s Safeguards) {
	if s.Timeout == 0 {
		s.Timeout = messages.DecisionTime
	}
	h.safe.Store(&armed{s, s.DeleteThreshold > 0 || s.OverwriteBytes > 0 || s.RenameOver})
}

// SetBridge tells which bridge serves the directory, for fences and
// invalidations. Without one (nil) there is nothing to fence.
func (h *Hooks) SetBridge(b fsbridge.Bridge) { h.bridge.Store(&bridgeBox{b}) }

// SetHostPID tells how to translate [fsbridge.Op.PID] to the host's numbers; nil
// for not at all. See hypervisor.Transport.
func (h *Hooks) SetHostPID(f func(pid uint32) (uint32, error)) {
	if f == nil {
		h.hostPID.Store(nil)
		return
	}
	h.hostPID.Store(&f)
}

func (h *Hooks) theBridge() fsbridge.Bridge {
	if box := h.bridge.Load(); box != nil {
		return box.b
	}
	return nil
}

// Log is for read-only calls, which need no message.
func (h *Hooks) Log() Log { return h.o.Log }

// InFlight returns the bridge's number of unfinished requests.
func (h *Hooks) InFlight() int {
	if b := h.theBridge(); b != nil {
		return b.InFlight()
	}
	return 0
}

// LastMutation is when the newest mutation began, or the newest undo, redo,
// restore or rollback ended: the watcher must not take those for somebody else's.
func (h *Hooks) LastMutation() time.Time { return time.Unix(0, h.last.Load()) }

func (h *Hooks) mutated() {
	h.last.Store(h.o.Clock.Now().UnixNano())
	h.changes.Add(1)
}

// Captures returns how many preimages were captured.
func (h *Hooks) Captures() int64 { return h.count.Load() }

// State returns the directory's state for people ("ok", "recovering",
// "read_only", "closed") and what is wrong.
func (h *Hooks) State() (state, problem string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch g := h.gate.Load(); g {
	case gateCrashed, gateReadOnly, gateClosed:
		return gateNames[g], h.problem
	}
	return "ok", h.problem
}

// Holding reports whether mutations wait for a decision or a rollback.
func (h *Hooks) Holding() bool { return h.gate.Load() == gateHold }

// GiveUp makes the directory read-only for good, because its actor cannot be
// restarted.
func (h *Hooks) GiveUp(why string) { h.readOnly(why) }

func (h *Hooks) readOnly(why string) {
	h.mu.Lock()
	h.problem = why
	h.mu.Unlock()
	h.gate.Store(gateReadOnly)
	h.log.Error("directory is read-only now", "reason", why)
	h.o.Node.SetState("read_only")
	h.o.Node.SetError(why)
	if f := h.o.Events.Failed; f != nil {
		f("directory " + h.o.Directory + " is read-only now, because its undo log does not work: " + why)
	}
}

// Begin implements [fsbridge.Interceptor].
func (h *Hooks) Begin(op *fsbridge.Op) (fsbridge.Ticket, error) {
	t := h.guard.Enter(guardKey(op))
	if err := validate(op, t.Epoch); err != nil {
		h.guard.Exit(t)
		return fsbridge.Ticket{}, err
	}
	if h.gate.Load() == gateOpen && (!h.safe.Load().armed || h.counts(op, t.Epoch) == "") && h.o.Log.Protected(t.Epoch, op) && (op.Name == "" || h.protected(op, t.Epoch, nil) == nil) {
		h.mutated()
		if h.trace {
			h.logOp(levelTrace, "mutation", op)
		}
		return t, nil
	}
	return h.begin(op, t)
}

// logOp is for debugging: one line about one operation, and the step to which
// it belongs.
func (h *Hooks) logOp(l slog.Level, text string, op *fsbridge.Op) {
	attrs := []slog.Attr{slog.String("op", op.Kind.String()), slog.Uint64("inode", guardKey(op))}
	if id, ok := h.o.Log.Current(); ok {
		attrs = append(attrs, slog.Int64(logctx.KeyStep, int64(id)))
	}
	if op.Name != "" {
		attrs = append(attrs, slog.String("path", op.Name))
	}
	h.log.LogAttrs(context.Background(), l, text, attrs...)
}

// guardKey spreads operations over the guard's shards.
func guardKey(op *fsbridge.Op) uint64 {
	if op.Node != nil {
		return op.Node.ID.Ino
	}
	return op.Dir.ID.Ino
}

// begin is the way of everything that is not already protected. It is entered
// with the guard held.
func (h *Hooks) begin(op *fsbridge.Op, t fsbridge.Ticket) (fsbridge.Ticket, error) {
	var admitted uint64  // the epoch for which the actor said yes
	var entries []string // about which somebody said yes
	for {
		kind := ""
		if h.gate.Load() == gateIdle {
			h.takeWrites()
		}
		guarded := h.protected(op, t.Epoch, entries)
		if guarded != nil && guarded.deny {
			h.guard.Exit(t)
			h.refuse(guarded)
			return fsbridge.Ticket{}, fsbridge.ErrDenied
		}
		switch gate := h.gate.Load(); gate {
		case gateFailing, gateCrashed, gateReadOnly, gateClosed:
			h.guard.Exit(t)
			return fsbridge.Ticket{}, gateError(gate)
		case gateOpen:
			if admitted != t.Epoch {
				kind = h.counts(op, t.Epoch)
			}
			if kind == "" && guarded == nil {
				return h.capture(op, t)
			}
		default:
			kind = h.counts(op, t.Epoch)
		}
		h.guard.Exit(t)
		op.Dirs.Pause() // somebody may have to decide: what else is done there does not wait
		epoch, err := h.ask(op, kind, admitted, guarded)
		if err == nil {
			err = op.Dirs.Resume(nil) // soon: nobody keeps them while he waits
		}
		if err != nil {
			return fsbridge.Ticket{}, err
		}
		admitted = epoch
		if guarded != nil {
			entries = append(entries, guarded.entry)
		}
		t = h.guard.Enter(guardKey(op))
		if err = validate(op, t.Epoch); err == nil {
			err = renew(op)
		}
		if err != nil {
			h.guard.Exit(t)
			return fsbridge.Ticket{}, err
		}
	}
}

// validate lets the bridge look whether what op names is still in place. The
// guard is held.
func validate(op *fsbridge.Op, epoch uint64) error {
	if op.Validate == nil {
		return nil
	}
	return op.Validate(epoch)
}

func gateError(gate uint32) error {
	switch gate {
	case gateFailing:
		return fsbridge.ErrDenied
	case gateReadOnly:
		return fsbridge.ErrReadOnly
	}
	return fsbridge.ErrFailed
}

// capture puts what op destroys into the log, under the guard.
func (h *Hooks) capture(op *fsbridge.Op, t fsbridge.Ticket) (_ fsbridge.Ticket, err error) {
	defer func() {
		if r := recover(); r != nil {
			h.crash(r)
			err = fmt.Errorf("%w: capture panicked", fsbridge.ErrFailed)
		}
		if err != nil {
			h.guard.Exit(t)
		}
	}()
	h.mutated()
	t.Performed, err = h.o.Log.Capture(t.Epoch, op)
	if err != nil {
		return fsbridge.Ticket{}, bridgeError(err)
	}
	h.count.Add(1)
	if h.debug {
		h.logOp(slog.LevelDebug, "preimage captured", op)
	}
	return t, nil
}

// bridgeError gives an error of the log one of the meanings that a bridge
// knows; an errno inside it is taken as it is.
func bridgeError(err error) error {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno), errors.Is(err, fsbridge.ErrNoSpace), errors.Is(err, fsbridge.ErrReadOnly),
		errors.Is(err, fsbridge.ErrDenied), errors.Is(err, fsbridge.ErrFailed), errors.Is(err, fsbridge.ErrInterrupted):
		return err
	case errors.Is(err, undolog.ErrClosed):
		return fmt.Errorf("%w: %w", fsbridge.ErrFailed, err)
	}
	return fmt.Errorf("%w: %w", fsbridge.ErrFailed, err)
}

// End implements [fsbridge.Interceptor].
func (h *Hooks) End(t fsbridge.Ticket, op *fsbridge.Op, created *fsbridge.Object, err error) {
	defer h.guard.Exit(t)
	defer func() {
		if r := recover(); r != nil {
			h.crash(r)
		}
	}()
	h.o.Log.Done(t.Epoch, op, created, err)
}

// crash closes the gate and makes the actor panic, so that it is restarted and
// recovers the log.
func (h *Hooks) crash(reason any) {
	h.closeGate()
	h.log.Error("undo log panicked",
		"reason", fmt.Sprint(reason), "stack", string(debug.Stack()))
	h.send(&crashed{reason})
}

// closeGate makes everything fail until the actor has recovered the log.
func (h *Hooks) closeGate() {
	for {
		g := h.gate.Load()
		if g == gateReadOnly || g == gateClosed || h.gate.CompareAndSwap(g, gateCrashed) {
			return
		}
	}
}

// OnPanic is for supervision: the actor panicked.
func (h *Hooks) OnPanic(any) { h.closeGate() }

// moveGate is the actor's: it changes the gate unless a crash closed it.
func (h *Hooks) moveGate(to uint32) {
	for {
		g := h.gate.Load()
		if g == gateCrashed || g == gateReadOnly || g == gateClosed {
			return
		}
		if h.gate.CompareAndSwap(g, to) {
			h.o.Node.SetState(gateNames[to])
			return
		}
	}
}

// SetTell names the actor. It is called when it is spawned.
func (h *Hooks) SetTell(t messages.Tell) { h.tell.Store(&t) }

func (h *Hooks) send(msg any) {
	if t := h.tell.Load(); t != nil {
		(*t)(msg)
	}
}
