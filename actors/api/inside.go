package api

// InsideMaxLine is how many bytes a line of a program inside may have that asks for a
// step of its own ([InsideRequest]), or is answered.
const InsideMaxLine = 16 << 10

// InsideRequest is what a program inside says at the socket that
// [github.com/codeagent/sandbox/hypervisor.StepsVariable] names: JSON, one a line. The
// first has Command and Dir; it is answered, and the command runs then. The second has
// Ended, and is answered when the step is closed. The end of the connection does as
// well.
type InsideRequest struct {
	Command  string `json:"command,omitempty"` // for people
	Dir      string `json:"dir,omitempty"`
	Ended    bool   `json:"ended,omitempty"`
	ExitCode int    `json:"exit_code,omitempty"`
}

// InsideAnswer answers an [InsideRequest].
type InsideAnswer struct {
	// Step is the step that the command runs in.
	Step int64 `json:"step_id,omitempty"`
	// Outcome and Reason are those of the command's step at its end; Others is how many
	// commands run on in it.
	Outcome string `json:"outcome,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Left    bool   `json:"not_rolled_back,omitempty"` // as RunResult has it
	Others  int    `json:"others_running,omitempty"`
	Changed int    `json:"affected_count,omitempty"`
	// Shared says why the command gets no step of its own, but runs in that of the command
	// that it is inside of.
	Shared string `json:"shared,omitempty"`
	Error  string `json:"error,omitempty"`
}
