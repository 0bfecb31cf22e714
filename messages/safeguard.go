package messages

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// The kinds of safeguard, as the protocol spells them.
const (
	KindDelete    = "delete_threshold"
	KindOverwrite = "overwrite_large"
	KindRename    = "rename_over"
	// KindProtected: a file or directory that is not written to without a decision.
	KindProtected = "protected_write"
	// KindCommand: a command that is about to run; it is in no step yet.
	KindCommand = "command"
	// KindNetwork: a destination that the guest wants to reach.
	KindNetwork = "network"
	// KindGate: a file or directory of the host that a program wants to see.
	KindGate = "gate"
	// KindUse: a key of an agent outside that a program wants to use.
	KindUse = "use"
)

// Lasting reports whether an answer to a question of that kind can be kept as a rule, for
// longer than what has asked: it is about a subject that is the same the next time. An answer
// to a safeguard is about what one step does.
func Lasting(kind string) bool {
	return kind == KindNetwork || kind == KindGate || kind == KindProtected || kind == KindUse
}

// Who decides where nobody did.
const (
	ByTimeout  = "timeout"
	ByCrash    = "crash"
	ByShutdown = "shutdown"
	// ByNobody: at once, since nobody was there who could have decided.
	ByNobody = "nobody"
	// ByWithdrawn: nobody: what had asked ended before.
	ByWithdrawn = "withdrawn"
	// ByRule: the policy, without a question.
	ByRule = "rule"
	// ByKept: a person, in an earlier session or another one.
	ByKept = "kept answer"
)

// Unattended reports whether that is what decided, and no person.
func Unattended(by string) bool {
	return by == ByTimeout || by == ByCrash || by == ByShutdown || by == ByNobody
}

// Refusal says why a step ends that a safeguard of a kind has denied; by is who decided.
func Refusal(id, kind, by string) string {
	if by != ByNobody {
		return fmt.Sprintf("safeguard %s (%s) denied by %s", id, kind, by)
	}
	allows := map[string]string{
		KindDelete: "--safeguard-deletes says from which file on it is asked (0: never)", KindOverwrite: "--safeguard-overwrite says above which size it is asked (0: never)",
		KindRename: "--safeguard-rename-over=false does not ask",
	}[kind]
	return fmt.Sprintf("safeguard %s (%s): nobody can answer here; %s; 'sandbox approvals' in a terminal answers, and with --safeguard-timeout it waits for 'sandbox approve'", id, kind, allows)
}

// Undecided is the error of a question that nobody has decided; by says why.
func Undecided(id, by string) error {
	if by == ByNobody {
		return errors.New("nobody can answer here")
	}
	return fmt.Errorf("%s: %s", id, by)
}

// Ask is sent by an Interceptor that holds its directory until somebody
// decides. Answer is told one [*Answer] with the same Token, unless the Ask is
// withdrawn first.
type Ask struct {
	Token     uint64
	Directory string
	Step      int64
	Command   string
	Kind      string
	Count     int
	Paths     []string // a sample
	Message   string
	// From says who asked for what this is about, where that is not the step.
	From Asker
	// Callers are the process inside that asks, its parent, and so on up to the command.
	Callers []Process
	Answer  Tell
}

// Process is a process inside, for people: it chooses its name and its command line itself. The texts are
// printable and bounded.
type Process struct {
	PID                        int
	Name, Program, CommandLine string
	// Inside is its number inside, if it is the guest's first process or a child of that; else 0.
	Inside int
}

// Asker is who asked a session for something: a frontend, its id of the request
// and the tool.
type Asker struct{ Frontend, RequestID, Tool string }

// Fail denies what was asked: the actor that would have asked somebody crashed on it, or has stopped.
func (a *Ask) Fail(err error) {
	by := ByCrash
	if errors.Is(err, ErrStopped) {
		by = ByShutdown
	}
	if a.Answer != nil {
		a.Answer(&Answer{Token: a.Token, By: by})
	}
}

// LogValue leaves the paths out.
func (a *Ask) LogValue() slog.Value {
	return slog.GroupValue(slog.String("kind", a.Kind), slog.Int64("step_id", a.Step),
		slog.Int("count", a.Count), slog.Int("paths", len(a.Paths)))
}

// Answer decides an [Ask].
type Answer struct {
	Token uint64
	ID    string
	Allow bool
	By    string
	// Scope is for how long it stands: "once", "project", "user", or the session.
	Scope string
	// For, if not zero, is how long it stands at most.
	For time.Duration
}

// Withdraw takes the Ask of a directory back: nobody waits any more.
type Withdraw struct {
	Directory string
	Token     uint64
}

// Decision is one line of the audit log.
type Decision struct {
	At        time.Time `json:"at"`
	Session   string    `json:"session,omitempty"`
	ID        string    `json:"safeguard_id,omitempty"` // of a question; a rule asks none
	Kind      string    `json:"kind"`
	Directory string    `json:"directory"`
	Step      int64     `json:"step_id"`
	Command   string    `json:"command,omitempty"`
	Count     int       `json:"count"`
	Message   string    `json:"message,omitempty"` // what it is about, but of a safeguard
	Decision  string    `json:"decision"`          // "allow", "deny" or "withdrawn"
	By        string    `json:"by"`
	Rule      string    `json:"rule,omitempty"`  // the deciding one, if a rule decided
	Scope     string    `json:"scope,omitempty"` // for how long it stands; empty: for the session
	// Frontend and RequestID say who asked for what was held.
	Frontend  string `json:"frontend,omitempty"`
	RequestID string `json:"request_id,omitempty"`

	// From is the question's.
	From Asker `json:"-"`
}
