package audit

import (
	"time"

	"github.com/codeagent/sandbox/actors/audit/chain"
)

// File is the log's name in a folder's undo directory.
const File = "decisions.jsonl"

// The kinds of line beside those of decisions.
const (
	KindSession = "session"
	KindDamage  = "damage"
)

// Session is the line before the first decision of a session: under what it decides.
type Session struct {
	At          time.Time `json:"at"` // when it began
	Kind        string    `json:"kind"`
	Session     string    `json:"session"`
	Isolation   string    `json:"isolation,omitempty"`
	Network     string    `json:"network,omitempty"` // the policy
	Directories []string  `json:"directories"`
	User        int       `json:"uid"`
	PID         int       `json:"pid"`
}

// Damage is the line that a session writes which found the log damaged.
type Damage struct {
	At       time.Time       `json:"at"`
	Kind     string          `json:"kind"`
	Session  string          `json:"session"`
	Problems []chain.Problem `json:"problems"`
}
