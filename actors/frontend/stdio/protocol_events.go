package stdio

import (
	"time"

	"github.com/codeagent/sandbox/actors/api"
)

// The names of the events: those of the session, and three of the conversation.
const (
	EventStepStarted          = string(api.EventStepStarted)
	EventStepCompleted        = string(api.EventStepCompleted)
	EventTerminalOutput       = "event.terminal_output"
	EventAgentOutput          = "event.agent_output"
	EventWarning              = string(api.EventWarning)
	EventError                = string(api.EventError)
	EventSafeguardTriggered   = string(api.EventSafeguardTriggered)
	EventSafeguardDecided     = string(api.EventSafeguardDecided)
	EventNetwork              = string(api.EventNetwork)
	EventServiceEnded         = string(api.EventServiceEnded)
	EventApprovalRequested    = "event.approval_requested"
	EventExternalModification = string(api.EventExternalModification)
	EventRecovery             = string(api.EventRecovery)
	EventUndoVersionMismatch  = string(api.EventVersionMismatch)
	EventSessionState         = string(api.EventSessionState)
)

// StepStarted is the payload of event.step_started.
type StepStarted struct {
	StepID    int64     `json:"step_id"`
	Command   string    `json:"command" jsonschema:"as it is shown in the history"`
	At        time.Time `json:"at"`
	RequestID string    `json:"request_id,omitempty" jsonschema:"of the agent.execute or agent.prompt that began it"`
	Frontend  string    `json:"frontend,omitempty" jsonschema:"who asked for it: stdio, mcp, cli"`
}

// StepCompleted is the payload of event.step_completed. A step that changed
// several folders has one event for each.
type StepCompleted struct {
	StepID        int64     `json:"step_id"`
	AffectedPaths []string  `json:"affected_paths" jsonschema:"at most 100"`
	AffectedCount int       `json:"affected_count" jsonschema:"of paths, all of them"`
	ExitCode      *int      `json:"exit_code" jsonschema:"null where there is none: writes outside of commands"`
	Directory     string    `json:"directory,omitempty" jsonschema:"left out if nothing changed"`
	Type          string    `json:"type,omitempty" jsonschema:"command, api or ambient"`
	Command       string    `json:"command,omitempty" jsonschema:"as it is shown in the history"`
	Outcome       string    `json:"outcome" jsonschema:"completed, cancelled, denied or failed"`
	Unprotected   bool      `json:"unprotected,omitempty" jsonschema:"not all of it could be recorded, and it cannot be undone"`
	NotKept       []string  `json:"not_kept,omitempty" jsonschema:"files whose content was too much to keep, at most 100: an undo leaves them as they are and puts back all else"`
	NotKeptCount  int       `json:"not_kept_count,omitempty" jsonschema:"of them, all"`
	Last          bool      `json:"last" jsonschema:"no further event.step_completed follows for this command"`
	OthersRunning int       `json:"others_running,omitempty" jsonschema:"the command has ended, but the step is open: so many commands of it run on"`
	At            time.Time `json:"at"`
	RequestID     string    `json:"request_id,omitempty" jsonschema:"of the request that it belongs to"`
	Frontend      string    `json:"frontend,omitempty" jsonschema:"who asked for it: stdio, mcp, cli"`
}

// Output is the payload of event.terminal_output and event.agent_output.
type Output struct {
	Stream    string `json:"stream" jsonschema:"stdout or stderr"`
	Data      string `json:"data" jsonschema:"text, or base64"`
	Encoding  string `json:"encoding,omitempty" jsonschema:"base64 if the data is not UTF-8"`
	StepID    int64  `json:"step_id"`
	RequestID string `json:"request_id" jsonschema:"of the request that it belongs to"`
}

// Warning is the payload of event.warning.
type Warning struct {
	Code      string    `json:"code"`
	Message   string    `json:"message"`
	Field     string    `json:"field,omitempty" jsonschema:"of session.start, which has no effect here"`
	Directory string    `json:"directory,omitempty" jsonschema:"path of the working directory"`
	Steps     []int64   `json:"steps,omitempty" jsonschema:"the steps that it is about"`
	Lost      int       `json:"lost,omitempty" jsonschema:"events that were dropped because the client did not read"`
	RequestID string    `json:"request_id,omitempty" jsonschema:"of the command whose text looks suspicious"`
	At        time.Time `json:"at"`
}

// ErrorEvent is the payload of event.error.
type ErrorEvent struct {
	Code      Code      `json:"code"`
	Message   string    `json:"message"`
	Directory string    `json:"directory,omitempty" jsonschema:"path of the working directory"`
	At        time.Time `json:"at"`
}

// SafeguardTriggered is the payload of event.safeguard_triggered.
type SafeguardTriggered struct {
	StepID      int64     `json:"step_id"`
	SafeguardID string    `json:"safeguard_id"`
	Kind        string    `json:"kind" jsonschema:"delete_threshold, overwrite_large or rename_over"`
	DeleteCount int       `json:"delete_count,omitempty" jsonschema:"for delete_threshold"`
	Count       int       `json:"count"`
	SamplePaths []string  `json:"sample_paths" jsonschema:"at most 10"`
	Message     string    `json:"message"`
	Directory   string    `json:"directory" jsonschema:"path of the working directory"`
	Command     string    `json:"command,omitempty" jsonschema:"as it is shown in the history"`
	Deadline    time.Time `json:"deadline" jsonschema:"denied if nobody decides before"`
	RequestID   string    `json:"request_id,omitempty" jsonschema:"of the request that it belongs to"`
	Frontend    string    `json:"frontend,omitempty" jsonschema:"who asked for it: stdio, mcp, cli"`
}

// ApprovalRequested is the payload of event.approval_requested: a hold that is
// not a safeguard.
type ApprovalRequested struct {
	ApprovalID  string    `json:"approval_id"`
	Kind        string    `json:"kind"`
	StepID      int64     `json:"step_id,omitempty"`
	Message     string    `json:"message"`
	SamplePaths []string  `json:"sample_paths" jsonschema:"at most 10"`
	Directory   string    `json:"directory,omitempty" jsonschema:"path of the working directory"`
	Command     string    `json:"command,omitempty" jsonschema:"as it is shown in the history"`
	Deadline    time.Time `json:"deadline"`
	RequestID   string    `json:"request_id,omitempty" jsonschema:"of the request that it belongs to"`
	Frontend    string    `json:"frontend,omitempty" jsonschema:"who asked for it: stdio, mcp, cli"`
}

// SafeguardDecided is the payload of event.safeguard_decided.
type SafeguardDecided struct {
	SafeguardID string    `json:"safeguard_id"`
	Action      string    `json:"action" jsonschema:"allow or deny"`
	By          string    `json:"by" jsonschema:"stdio, terminal, cli, mcp, timeout ..."`
	StepID      int64     `json:"step_id"`
	Directory   string    `json:"directory" jsonschema:"path of the working directory"`
	At          time.Time `json:"at"`
}

// ExternalModification is the payload of event.external_modification.
type ExternalModification struct {
	Directory     string    `json:"directory" jsonschema:"path of the working directory"`
	AffectedPaths []string  `json:"affected_paths" jsonschema:"at most 100"`
	AffectedCount int       `json:"affected_count" jsonschema:"of paths, all of them"`
	Message       string    `json:"message"`
	At            time.Time `json:"at"`
}

// RecoveryEvent is the payload of event.recovery.
type RecoveryEvent struct {
	Directory         string    `json:"directory" jsonschema:"path of the working directory"`
	StepID            int64     `json:"step_id" jsonschema:"the step that was interrupted, or 0"`
	Command           string    `json:"command,omitempty" jsonschema:"as it is shown in the history"`
	RestoredPaths     int       `json:"restored_paths"`
	CompletedRollback bool      `json:"completed_rollback,omitempty" jsonschema:"an interrupted undo was finished"`
	Unprotected       bool      `json:"unprotected,omitempty" jsonschema:"the step was kept: not all of it could be recorded"`
	Kept              bool      `json:"kept,omitempty" jsonschema:"the step was not rolled back: it is in the history as it is, and can be undone"`
	EditedPaths       []string  `json:"edited_paths,omitempty" jsonschema:"why it was kept, or what a finished undo has left: changed since it was interrupted; at most 100"`
	EditedCount       int       `json:"edited_count,omitempty" jsonschema:"of these paths, all of them"`
	Problems          []string  `json:"problems,omitempty" jsonschema:"what could not be put back"`
	Message           string    `json:"message"`
	At                time.Time `json:"at"`
}

// UndoVersionMismatchEvent is the payload of event.undo_version_mismatch.
type UndoVersionMismatchEvent struct {
	Directory       string    `json:"directory,omitempty" jsonschema:"path of the working directory"`
	UndoDir         string    `json:"undo_dir,omitempty" jsonschema:"where its undo log is"`
	FoundVersion    int       `json:"found_version,omitempty"`
	ExpectedVersion int       `json:"expected_version,omitempty"`
	Message         string    `json:"message"`
	At              time.Time `json:"at"`
}

// Network is the payload of event.network: one line of the network's audit. Names
// and addresses in it are the guest's.
type Network struct {
	Kind       string    `json:"kind" jsonschema:"start, end, deny, lookup, ask or listen"`
	Flow       uint64    `json:"flow,omitempty" jsonschema:"of a start and its end, the same number"`
	Protocol   string    `json:"protocol" jsonschema:"tcp, udp, icmp or dns"`
	Target     string    `json:"target,omitempty" jsonschema:"address and port"`
	Reached    string    `json:"reached,omitempty" jsonschema:"of a listen that is allowed: where the host reaches the port"`
	Domain     string    `json:"domain,omitempty" jsonschema:"the name that is looked up, or by which the address was found"`
	Action     string    `json:"action" jsonschema:"allow, deny or undecided"`
	Rule       string    `json:"rule,omitempty" jsonschema:"what decided it"`
	Sent       uint64    `json:"sent_bytes,omitempty" jsonschema:"of an end: from the guest"`
	Received   uint64    `json:"received_bytes,omitempty" jsonschema:"of an end: to the guest"`
	DurationMS int64     `json:"duration_ms,omitempty" jsonschema:"of an end"`
	Error      string    `json:"error,omitempty" jsonschema:"what went wrong"`
	StepID     int64     `json:"step_id,omitempty" jsonschema:"the step that was open"`
	At         time.Time `json:"at"`
}

// SessionState is the payload of event.session_state.
type SessionState struct {
	State     string    `json:"state" jsonschema:"starting, active, stopping, failed or ended"`
	SessionID string    `json:"session_id"`
	At        time.Time `json:"at"`
}
