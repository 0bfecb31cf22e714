package actors

import (
	"context"
	"os"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// RunRequest runs one command as one step.
type RunRequest struct {
	Argv []string
	Env  []string
	Dir  string // host path; empty means the first working folder
	// Stdin, Stdout, Stderr and TTY as in [hypervisor.Command].
	Stdin, Stdout, Stderr *os.File
	TTY                   *hypervisor.TTY
	// Started is called once the command runs; it may be nil. It gets the
	// process, to signal, resize and talk to its terminal.
	Started func(undolog.StepID, hypervisor.Process)
	// Timeout cancels the command; 0 means none. It begins when the command
	// runs.
	Timeout time.Duration
	// Question, if it is not empty, is put to a person before the command starts,
	// as a safeguard's is: unless it is allowed in time, the outcome is "denied",
	// nothing was run and there is no step.
	Question string
	// Origin comes back in the events of the command's step.
	Origin Origin
	// Wait lets the request wait in line, first come first served, while another
	// command runs; without it that is ErrBusy. The line is bounded: ErrBusy
	// when it is full.
	Wait bool
}

// RunResult says how a command ended.
type RunResult struct {
	Step   undolog.StepID
	Status hypervisor.ExitStatus
	// Outcome is "completed", "cancelled", "denied" or "failed". After "denied"
	// and "failed" the step has been rolled back.
	Outcome string
	Reason  string // for people; empty when completed
	// Entries are the closed steps, one for each directory that changed.
	Entries []RunEntry
}

// RunEntry is what the command's step left in one directory.
type RunEntry struct {
	Directory string
	Entry     undolog.Entry
}

// Runner is the part of a session that runs commands. [Session] implements it
// beside [Service].
type Runner interface {
	Run(ctx context.Context, r RunRequest) (RunResult, error)
	// Subscribe calls f for every event until cancel is called, from one
	// goroutine, in order. f may take its time, it delays nobody; but when it
	// falls thousands of events behind, the oldest are dropped (announcements
	// before results) and an [EventWarning] says how many. Where types are
	// named it is told of these only, and not of what happened before.
	Subscribe(f func(Event), only ...EventType) (cancel func())
}

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
)

// Event is something that frontends show. The fields that belong to Type are
// set.
type Event struct {
	Type      EventType
	At        time.Time
	Directory string
	Step      undolog.StepID
	// Origin is that of the request that the step belongs to; zero for what
	// nobody asked for.
	Origin  Origin
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
	// Err is why an [EventError] came, where its kind is known: a sentinel error,
	// wrapped.
	Err error
}
