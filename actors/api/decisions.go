package api

import (
	"context"
	"errors"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Decider lists and decides safeguards.
type Decider interface {
	// Pending lists undecided safeguards, oldest first.
	Pending(ctx context.Context) ([]Pending, error)
	Decide(ctx context.Context, r DecideRequest) error
}

// Pending is a safeguard that waits for a decision.
type Pending struct {
	ID          string         `json:"safeguard_id"`
	Kind        string         `json:"kind"` // "delete_threshold", "overwrite_large", "rename_over", "command", "network"
	Directory   string         `json:"directory"`
	Step        undolog.StepID `json:"step_id"`
	Command     string         `json:"command,omitempty"`
	Count       int            `json:"count"`
	SamplePaths []string       `json:"sample_paths"`
	Message     string         `json:"message"`
	Since       time.Time      `json:"since"`
	Deadline    time.Time      `json:"deadline"`
	// Callers are the program that asks, its parent, and so on up to the command; empty if
	// that is not known.
	Callers []Process `json:"callers,omitempty"`
}

// DecideRequest decides a safeguard. The first decision wins; a later one gets
// an error that says who decided.
type DecideRequest struct {
	ID    string `json:"safeguard_id"`
	Allow bool   `json:"allow"`
	By    string `json:"by,omitempty"` // for the audit log: "terminal", "cli", "stdio" ...
	// Scope is where the answer stands: "once", "session" (or empty), "project" or "user".
	// Only answers that can be kept have one: see [messages.Lasting].
	Scope string `json:"scope,omitempty"`
	// For, if not zero, is how long it stands there at most.
	For time.Duration `json:"for,omitempty"`
}

// ErrStands is wrapped by the errors of [Decisions.TakeBack] for what cannot be taken back.
var ErrStands = errors.New("it cannot be taken back")

// Decisions are those of a running session. Methods are safe for concurrent use.
type Decisions interface {
	// Decisions returns what questions of this session came to, the newest first; of many only
	// the newest thousand.
	Decisions(ctx context.Context) ([]Decided, error)
	// TakeBack takes an answer back: it is asked again the next time. What has happened because
	// of it stays: what was read, sent or written. The error wraps [ErrStands] for an answer that does not
	// stand for anything any more, and messages.ErrNoSafeguard if there is none with the id.
	TakeBack(ctx context.Context, r TakeBackRequest) error
}

func decisionOperations() []Operation {
	return []Operation{
		{Control: "pending", Traits: Reads, Call: gets(Decider.Pending)},
		{Control: "decide", STDIO: "approval.decide", Traits: Decides, Call: tells(Decider.Decide)},
		{Control: "decisions", Traits: Reads, Call: gets(Decisions.Decisions)},
		{Control: "take_back", Call: tells(Decisions.TakeBack)},
	}
}

func (c Remote) Pending(ctx context.Context) ([]Pending, error) {
	return ask[[]Pending](ctx, c, "pending", None{})
}

func (c Remote) Decide(ctx context.Context, r DecideRequest) error { return tell(ctx, c, "decide", r) }

func (c Remote) Decisions(ctx context.Context) ([]Decided, error) {
	return ask[[]Decided](ctx, c, "decisions", None{})
}

func (c Remote) TakeBack(ctx context.Context, r TakeBackRequest) error {
	return tell(ctx, c, "take_back", r)
}

// TakeBackRequest names the answer.
type TakeBackRequest struct {
	ID string `json:"safeguard_id"`
	By string `json:"by,omitempty"`
}

// Decided is a question with what it came to.
type Decided struct {
	Pending
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome"` // "allow", "deny" or "withdrawn"
	By      string    `json:"by"`
	Scope   string    `json:"scope,omitempty"`
	// Rule is the rule of the policy that the answer was kept as.
	Rule  string    `json:"rule,omitempty"`
	Until time.Time `json:"until,omitzero"` // when that ends
	// Standing says that the answer can be taken back, Final why not.
	Standing  bool   `json:"standing"`
	Final     string `json:"final,omitempty"`
	TakenBack bool   `json:"taken_back,omitempty"`
}
