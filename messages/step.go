package messages

import "log/slog"

// The outcomes of a command.
const (
	OutcomeCompleted = "completed"
	OutcomeCancelled = "cancelled"
	OutcomeDenied    = "denied"
	OutcomeFailed    = "failed"
)

// StepFail tells the step actor that the open step must not be kept: its
// mutations fail, its command is ended, and it is rolled back everywhere.
type StepFail struct {
	Step    int64
	Outcome string // OutcomeDenied or OutcomeFailed
	Reason  string
	// Done is answered when the step has been rolled back, with its id, or 0 if
	// none was open; it may be nil.
	Done *Reply[int64]
}

// Fail answers Done.
func (m *StepFail) Fail(err error) { m.Done.Fail(err) }

// LogValue names the step.
func (m *StepFail) LogValue() slog.Value {
	return slog.GroupValue(slog.Int64("step_id", m.Step), slog.String("outcome", m.Outcome))
}
