package actors

import (
	"context"
	"maps"
	"os"

	"github.com/codeagent/sandbox/messages"
)

// Status implements [Service]. It takes a few locks that nobody holds for long,
// and asks no actor and no disk.
func (s *Session) Status(context.Context) (Status, error) {
	now := s.board.Load()
	st := Status{Session: s.id, State: "offline", StartedAt: s.started, PID: os.Getpid(), Pending: now.Pending}
	select {
	case <-s.stopped:
		return st, messages.ErrStopped
	default:
	}
	if s.cfg.Runtime != nil {
		st.State, st.Isolation = string(now.State), s.cfg.Runtime.Name()
		if g := s.slot.Guest(); g != nil {
			st.Machine = maps.Clone(g.Facts())
		}
	}
	for _, w := range s.dirs {
		st.Directories = append(st.Directories, w.status())
	}
	if id := now.Step; id != 0 {
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
