package messages

import "time"

// What holds of a session where nothing else is set, and what it has at most: the only home of these figures. How long it waits for its folders is said
// beside [QuietTime], and an undo log's sizes are those of undolog.DefaultSettings.
const (
	// Commands is how many commands run at once.
	Commands = 256
	// DecisionTime is how long a person has for a decision; what is held is denied then.
	DecisionTime = 30 * time.Second
	// ToolTime is how long a command of an MCP client has that says nothing of it.
	ToolTime = 2 * time.Minute
	// MaxDirectories is how many working folders a session has at most: the specification's limit.
	MaxDirectories = 8
)

// Safeguards says what is held for a decision. A zero threshold switches that
// safeguard off.
type Safeguards struct {
	DeleteThreshold int   // deletions in one step
	OverwriteBytes  int64 // overwriting or truncating an existing file above this size
	RenameOver      bool  // renaming over an existing file
	// Protect holds writes to what programs run from outside of a sandbox: see
	// approval.Entry.
	Protect bool
	Timeout time.Duration // then deny; 0 means [DecisionTime]
	// Exempt are patterns of package texts, relative to the folder, that are
	// never held.
	Exempt []string
}
