package approval

import (
	"time"
)

// AuditFile is the log's name in a folder's undo directory.
const AuditFile = "decisions.jsonl"

// The kinds of line beside those of decisions.
const (
	AuditKindSession = "session"
	AuditKindDamage  = "damage"
)

// AuditSession is the line before the first decision of a session: under what it decides.
type AuditSession struct {
	At          time.Time `json:"at"` // when it began
	Kind        string    `json:"kind"`
	Session     string    `json:"session"`
	Isolation   string    `json:"isolation,omitempty"`
	Network     string    `json:"network,omitempty"` // the policy
	Directories []string  `json:"directories"`
	User        int       `json:"uid"`
	PID         int       `json:"pid"`
}

// AuditDamage is the line that a session writes which found the log damaged.
type AuditDamage struct {
	At       time.Time      `json:"at"`
	Kind     string         `json:"kind"`
	Session  string         `json:"session"`
	Problems []ChainProblem `json:"problems"`
}
