package actors

import (
	"context"
	"os"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
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
	// Timeout cancels the command; 0 means none.
	Timeout time.Duration
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
	// Subscribe calls f for every event until cancel is called. f must not
	// block; it is called from one goroutine, in order.
	Subscribe(f func(Event)) (cancel func())
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
)

// Event is something that frontends show. The field that belongs to Type is
// set.
type Event struct {
	Type      EventType
	At        time.Time
	Directory string
	Step      undolog.StepID
	Message   string
	Paths     []string
	Pending   *Pending
	Recovery  *undolog.Recovery
	Warning   *undolog.Warning
	Entry     *undolog.Entry
	Decision  *DecideRequest
}
