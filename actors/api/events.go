package api

import (
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// EventType names an event as the STDIO API does (section 4.5).
type EventType string

// The events.
const (
	EventStepStarted          EventType = "event.step_started"
	EventStepCompleted        EventType = "event.step_completed"
	EventSafeguardTriggered   EventType = "event.safeguard_triggered"
	EventSafeguardDecided     EventType = "event.safeguard_decided"
	EventExternalModification EventType = "event.external_modification"
	EventRecovery             EventType = "event.recovery"
	EventVersionMismatch      EventType = "event.undo_version_mismatch"
	EventWarning              EventType = "event.warning"
	EventError                EventType = "event.error"
	EventSessionState         EventType = "event.session_state"
	EventNetwork              EventType = "event.network"
	EventServiceStarted       EventType = "event.service_started"
	EventServiceEnded         EventType = "event.service_ended"
	// EventTakenBack: an answer does not stand any more; Decision names it.
	EventTakenBack EventType = "event.answer_taken_back"
)

// Notifier tells of events.
type Notifier interface {
	// Subscribe calls f for every event until cancel is called, from one
	// goroutine, in order. f may take its time, it delays nobody; but when it
	// falls thousands of events behind, the oldest are dropped (announcements
	// before results) and an [EventWarning] says how many. Where types are
	// named it is told of these only, and not of what happened before.
	//
	// The first subscriber also gets what happened while the session started.
	Subscribe(f func(Event), only ...EventType) (cancel func())
	// Observe is Subscribe for what measures and shows nothing: it does not take
	// from the first subscriber what happened before.
	Observe(f func(Event)) (cancel func())
}

// Event is something that frontends show. The fields that belong to Type are
// set.
type Event struct {
	Type      EventType
	At        time.Time
	Directory string
	Step      undolog.StepID
	// Origin is that of the request that the step belongs to; zero for what
	// nobody asked for.
	Origin Origin
	// Caller is the origin of the command whose process a question is about, where that is known. Then
	// it is about no other command of the step.
	Caller  Origin
	Message string
	// Lost is how many events a slow subscriber has missed before this warning.
	Lost int
	// Command, Outcome ("completed", "cancelled", "denied" or "failed"), ExitCode
	// (nil where there is none) and AffectedCount are for a step's start and end.
	// A step that changed several folders ends with one event for each; the
	// last one has Last set.
	Command       string
	Outcome       string
	ExitCode      *int
	AffectedCount int
	Last          bool
	// Others is how many other commands run on in the step: not the step has ended, but
	// one command of it.
	Others int
	// Paths are a sample (at most [undolog.HistoryPaths]); those of a completed
	// step are in Entry.
	Paths    []string
	Pending  *Pending
	Recovery *undolog.Recovery
	Warning  *undolog.Warning
	Entry    *undolog.Entry
	Decision *DecideRequest
	// Network is one line of the network's audit: a flow that began, ended or was
	// denied, a lookup, a question.
	Network *policy.Event
	// Service is a service that was started, or has ended by itself or because somebody stopped it.
	Service *ServiceStatus
	// Err is why an [EventError] came, where its kind is known: a sentinel error,
	// wrapped.
	Err error
}

// Concerns tells whether what has happened is about the command of a request, which runs in step (0: not yet): about itself,
// about its step, or about nobody's.
func (e Event) Concerns(from Origin, step undolog.StepID) bool {
	if e.Caller != (Origin{}) {
		return e.Caller == from
	}
	return e.Origin == from || step != 0 && (e.Step == step || e.Origin == Origin{})
}
