package stdio

import (
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// lostPatience is how long a run waits for its event when events were dropped.
const lostPatience = 2 * time.Second

// event passes an event of the session on. It is called from one goroutine and
// waits while the client does not read; the session bounds what accumulates.
func (sess *session) event(e api.Event) {
	own := sess.own(e)
	switch e.Type {
	case api.EventStepStarted:
		sess.send(EventStepStarted, StepStarted{
			StepID: int64(e.Step), Command: e.Command, At: e.At, RequestID: e.Origin.RequestID, Frontend: e.Origin.Frontend,
		})
		if own != nil {
			own.begin()
		}
	case api.EventStepCompleted:
		if own != nil {
			own.awaitOutput()
		}
		sess.send(EventStepCompleted, stepCompleted(e))
		if own != nil && e.Last {
			own.finish()
		}
	case api.EventSafeguardTriggered:
		sess.pending(e)
	case api.EventSafeguardDecided:
		if d := e.Decision; d != nil {
			sess.send(EventSafeguardDecided, SafeguardDecided{
				SafeguardID: d.ID, Action: action(d.Allow), By: d.By, StepID: int64(e.Step), Directory: e.Directory, At: e.At,
			})
		}
	case api.EventWarning:
		sess.warning(e)
	default:
		sess.announce(e)
	}
}

func (sess *session) send(name string, payload any) {
	if err := sess.s.emit(sess.ctx, eventClass, name, payload); err != nil {
		sess.s.log.Debug("event not sent", "event", name, "err", err)
	}
}

// own finds the run of ours that the event belongs to.
func (sess *session) own(e api.Event) *run {
	if e.Origin.Frontend != decider {
		return nil
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return sess.runs[e.Origin.RequestID]
}

func (sess *session) warning(e api.Event) {
	w := Warning{Code: "warning", Message: e.Message, Directory: e.Directory, At: e.At}
	if e.Warning != nil {
		w.Code, w.Message = string(e.Warning.Code), e.Warning.Message
		for _, id := range e.Warning.Steps {
			w.Steps = append(w.Steps, int64(id))
		}
	}
	if e.Lost > 0 {
		w.Code, w.Lost = "events_dropped", e.Lost
		sess.mu.Lock()
		for _, r := range sess.runs {
			r.lost()
		}
		sess.mu.Unlock()
	}
	sess.send(EventWarning, w)
}

// announce passes on what nobody waits for.
func (sess *session) announce(e api.Event) {
	switch e.Type {
	case api.EventExternalModification:
		sess.send(EventExternalModification, ExternalModification{
			Directory: e.Directory, AffectedPaths: api.OrEmpty(e.Paths), AffectedCount: e.AffectedCount, Message: message(e), At: e.At,
		})
	case api.EventRecovery:
		r := RecoveryEvent{Directory: e.Directory, StepID: int64(e.Step), Message: e.Message, At: e.At}
		if e.Recovery != nil {
			r.Command, r.RestoredPaths, r.Problems = e.Recovery.Command, e.Recovery.Restored, e.Recovery.Problems
			r.CompletedRollback, r.Unprotected = e.Recovery.CompletedRollback, e.Recovery.Unprotected
			r.Kept, r.EditedPaths, r.EditedCount = e.Recovery.Kept, e.Recovery.Edited[:min(len(e.Recovery.Edited), undolog.HistoryPaths)], len(e.Recovery.Edited)
		}
		sess.send(EventRecovery, r)
	case api.EventVersionMismatch:
		sess.send(EventUndoVersionMismatch, UndoVersionMismatchEvent{Directory: e.Directory, Message: e.Message, At: e.At})
	case api.EventError:
		code := Internal
		if e.Err != nil {
			code = toError(e.Err).Code
		}
		sess.send(EventError, ErrorEvent{Code: code, Message: e.Message, Directory: e.Directory, At: e.At})
	case api.EventNetwork:
		if e.Network != nil {
			sess.send(EventNetwork, networkLine(e))
		}
	case api.EventServiceEnded:
		if e.Service != nil {
			sess.send(EventServiceEnded, ServiceResult{*e.Service})
		}
	case api.EventSessionState:
		sess.send(EventSessionState, SessionState{State: e.Message, SessionID: sess.live.ID(), At: e.At})
	}
}

func networkLine(e api.Event) Network {
	n := e.Network
	out := Network{
		Kind: string(n.Kind), Flow: n.Flow, Protocol: string(n.Protocol), Domain: n.Domain, Action: string(n.Action), Rule: n.Rule, Reached: n.Reached(),
		Sent: n.Sent, Received: n.Received, DurationMS: n.Duration.Milliseconds(), Error: n.Error, StepID: int64(e.Step), At: e.At,
	}
	if n.Target.IsValid() {
		out.Target = n.Target.String()
	}
	return out
}

func message(e api.Event) string {
	if e.Warning != nil && e.Warning.Message != "" {
		return e.Warning.Message
	}
	return e.Message
}

// pending announces a hold: a safeguard, or something to approve.
func (sess *session) pending(e api.Event) {
	p := e.Pending
	if p == nil {
		return
	}
	if !isSafeguard(p.Kind) {
		sess.send(EventApprovalRequested, ApprovalRequested{
			ApprovalID: p.ID, Kind: p.Kind, StepID: int64(p.Step), Message: p.Message, SamplePaths: api.OrEmpty(p.SamplePaths),
			Directory: p.Directory, Command: p.Command, Deadline: p.Deadline, RequestID: e.Origin.RequestID, Frontend: e.Origin.Frontend,
		})
		return
	}
	out := SafeguardTriggered{
		StepID: int64(p.Step), SafeguardID: p.ID, Kind: p.Kind, Count: p.Count, SamplePaths: api.OrEmpty(p.SamplePaths), Message: p.Message,
		Directory: p.Directory, Command: p.Command, Deadline: p.Deadline, RequestID: e.Origin.RequestID, Frontend: e.Origin.Frontend,
	}
	if p.Kind == messages.KindDelete {
		out.DeleteCount = p.Count
	}
	sess.send(EventSafeguardTriggered, out)
}

func stepCompleted(e api.Event) StepCompleted {
	out := StepCompleted{
		StepID: int64(e.Step), AffectedPaths: []string{}, AffectedCount: e.AffectedCount, ExitCode: e.ExitCode, Directory: e.Directory,
		Type: string(undolog.TypeCommand), Command: e.Command, Outcome: e.Outcome, Last: e.Last, OthersRunning: e.Others, At: e.At,
		RequestID: e.Origin.RequestID, Frontend: e.Origin.Frontend,
	}
	if e.Entry != nil {
		out.Type, out.Command, out.AffectedCount = string(e.Entry.Type), e.Entry.Command, e.Entry.AffectedCount
		out.AffectedPaths, out.Unprotected = api.OrEmpty(e.Entry.AffectedPaths), e.Entry.Unprotected
		out.NotKept, out.NotKeptCount = e.Entry.NotKept, e.Entry.NotKeptCount
	}
	return out
}

func action(allow bool) string {
	if allow {
		return "allow"
	}
	return "deny"
}
