package actors

import (
	"context"
	"maps"
	"os"
	"sync/atomic"

	"github.com/codeagent/sandbox/actors/session"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// now is what actors say of themselves as they change, so that a status need not
// ask any of them.
type now struct {
	state   atomic.Pointer[session.State]
	step    atomic.Int64 // the open one's id, or 0
	pending atomic.Int64 // undecided safeguards
}

// Status implements [Service]. It takes a few locks that nobody holds for long,
// and asks no actor and no disk.
func (s *Session) Status(context.Context) (Status, error) {
	st := Status{Session: s.id, State: "offline", StartedAt: s.started, PID: os.Getpid(), Pending: int(s.now.pending.Load())}
	select {
	case <-s.stopped:
		return st, messages.ErrStopped
	default:
	}
	if s.cfg.Runtime != nil {
		st.State, st.Isolation = string(session.Idle), s.cfg.Runtime.Name()
		if state := s.now.state.Load(); state != nil {
			st.State = string(*state)
		}
		if g := s.slot.Guest(); g != nil {
			st.Machine = maps.Clone(g.Facts())
		}
	}
	for _, w := range s.dirs {
		st.Directories = append(st.Directories, w.status())
	}
	if id := undolog.StepID(s.now.step.Load()); id != 0 {
		st.OpenStep = &id
	}
	return st, nil
}

func (w *workdir) status() DirectoryStatus {
	st := DirectoryStatus{
		Index: w.index, Path: w.d.Path, Label: w.d.Label, Access: "read_write", UndoDir: w.d.UndoDir, State: "ok", Bridge: w.bridgeStatus(),
	}
	switch {
	case w.d.ReadOnly:
		st.Access, st.UndoDir = "read_only", ""
	case w.mismatch != nil:
		st.State, st.Problem = "version_mismatch", w.mismatch.Error()
	default:
		st.State, st.Problem = w.hooks.State()
		st.Log = w.log.Status()
	}
	return st
}

func (w *workdir) bridgeStatus() *BridgeStatus {
	b := w.theBridge()
	if b == nil {
		return nil
	}
	st := &BridgeStatus{Kind: "fuse", Protocol: "FUSE", Cache: "long", MountPoint: w.share().GuestPath, InFlight: b.InFlight()}
	if k, ok := b.(interface {
		Kind() (kind, protocol string)
	}); ok {
		st.Kind, st.Protocol = k.Kind()
	}
	if w.s.cfg.CacheNone {
		st.Cache = "none"
	}
	if c, ok := b.(interface{ Counts() map[string]uint64 }); ok {
		st.Requests = c.Counts()
	}
	return st
}
