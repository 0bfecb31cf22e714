package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
)

// hello agrees on the version of the protocol.
func hello(_ context.Context, rq *request, p *HelloRequest) (HelloResult, error) {
	if err := checkVersion(p.ProtocolVersion); err != nil {
		return HelloResult{}, err
	}
	rq.logs(slog.LevelInfo, "client", "client", p.Client, "protocol_version", Version)
	return HelloResult{
		ProtocolVersion: Version, SupportedVersions: supportedVersions(), AgentVersion: rq.s.o.Version,
		MaxLineBytes: MaxLine, MaxInFlight: MaxInFlight, Operations: Operations(),
	}, nil
}

func supportedVersions() []int { return []int{Version} }

// checkVersion accepts the versions spoken here and 0, which is none.
func checkVersion(v int) error {
	if v == 0 || v == Version {
		return nil
	}
	return &Error{
		Code: VersionMismatch, Field: "protocol_version",
		Message: fmt.Sprintf("protocol version %d is not spoken here; %d is", v, Version),
		Data:    map[string][]int{"supported_versions": supportedVersions()},
	}
}

// statusBatch answers session.status. All requests that wait when it looks get
// the same answer: each was asked before.
type statusBatch struct {
	s       *Server
	mu      sync.Mutex // waiting, spare, busy
	waiting []*request
	spare   []*request // empty: the next to become waiting
	busy    bool
	items   []outboxItem // empty; run's own
}

func (b *statusBatch) add(rq *request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, rq)
	if !b.busy {
		b.busy = true
		b.s.wg.Add(1)
		go b.run()
	}
}

func (b *statusBatch) run() {
	defer b.s.wg.Done()
	for {
		b.mu.Lock()
		batch := b.waiting
		if b.busy = len(batch) > 0; !b.busy {
			b.mu.Unlock()
			return
		}
		b.waiting, b.spare = b.spare, nil
		b.mu.Unlock()
		var payload json.RawMessage
		st, err := b.s.status(b.s.ctx)
		if err == nil {
			payload, err = marshal(st)
		}
		if err == nil {
			b.answer(batch, ending(payload))
		} else {
			for _, rq := range batch {
				rq.answer(nil, err)
			}
		}
		clear(batch)
		b.mu.Lock()
		b.spare = batch[:0]
		b.mu.Unlock()
	}
}

// answer is [request.answer] for all of a batch at once, with one end. What it
// leaves to be collected, the slowest answers wait for: so there is little.
func (b *statusBatch) answer(batch []*request, end []byte) {
	s, size := b.s, 0
	for _, rq := range batch {
		rq.logs(rq.op.level(), "response sent", "op", rq.op.name)
		size += len(rq.id) + headSize
	}
	items := b.items[:0]
	heads := make([]byte, 0, size)
	s.mu.Lock()
	for _, rq := range batch {
		delete(s.inflight, rq.id)
		start := len(heads)
		heads = appendSuccess(heads, rq.id)
		items = append(items, outboxItem{Class: responseClass, Head: heads[start:len(heads):len(heads)], Tail: end})
	}
	s.mu.Unlock()
	kind, n := batch[0].op.kind(), len(batch)
	items[n-1].Written = func() { s.vacate(kind, n) }
	s.out.PutResponses(items)
	clear(items)
	b.items = items
}

// status describes the session, or that there is none.
func (s *Server) status(ctx context.Context) (StatusResult, error) {
	r := StatusResult{State: "none", ProtocolVersion: Version, AgentVersion: s.o.Version}
	s.mu.Lock()
	sess, starting := s.session, s.starting
	s.mu.Unlock()
	if sess == nil {
		if starting {
			r.State = "starting"
		}
		return r, nil
	}
	st, err := sess.live.Status(ctx)
	if errors.Is(err, messages.ErrStopped) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.State = st.State
	switch st.State {
	case "active":
		r.State = "idle"
		if st.OpenStep != nil {
			r.State = "running"
		}
	case "failed":
		r.State = "error"
	}
	r.SessionID, r.StartedAt, r.Isolation, r.Machine = st.Session, st.StartedAt, st.Isolation, st.Machine
	if st.OpenStep != nil {
		r.OpenStep = int64(*st.OpenStep)
	}
	for _, c := range st.Running {
		r.Running = append(r.Running, RunningCommand{c.Command, c.StartedAt})
	}
	for _, d := range st.Directories {
		r.WorkingDirectories = append(r.WorkingDirectories, directoryInfo(d))
	}
	if r.PendingSafeguards = st.Pending; st.Pending > 0 {
		list, err := sess.live.Pending(ctx)
		if err != nil {
			return r, err
		}
		for _, p := range list {
			r.Pending = append(r.Pending, pending(p))
		}
	}
	return r, nil
}

func directoryInfo(d api.DirectoryStatus) DirectoryInfo {
	info := DirectoryInfo{
		Index: d.Index, Path: d.Path, Label: d.Label, MountTag: "working" + strconv.Itoa(d.Index),
		Access: d.Access, State: d.State, Problem: d.Problem, UndoDir: d.UndoDir,
	}
	if d.Access != "read_only" {
		info.Undo = &UndoInfo{d.Log.Steps, d.Log.Redoable, d.Log.StoredBytes, d.Log.RawBytes, d.Log.Version}
	}
	if b := d.Bridge; b != nil {
		info.Bridge = &BridgeInfo{Kind: b.Kind, Protocol: b.Protocol, Cache: b.Cache, MountPoint: b.MountPoint, InFlight: b.InFlight}
		for _, n := range b.Requests {
			info.Bridge.Requests += n
		}
	}
	return info
}

func pending(p api.Pending) Pending {
	return Pending{
		ID: p.ID, Kind: p.Kind, Directory: p.Directory, StepID: int64(p.Step), Command: p.Command, Count: p.Count,
		SamplePaths: api.OrEmpty(p.SamplePaths), Message: p.Message, Since: p.Since, Deadline: p.Deadline,
	}
}

// isSafeguard reports whether the kind of a hold is one of the safeguards.
func isSafeguard(kind string) bool {
	return kind == messages.KindDelete || kind == messages.KindOverwrite || kind == messages.KindRename
}
