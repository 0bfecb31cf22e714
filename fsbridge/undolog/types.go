package undolog

import (
	"log/slog"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// The log's vocabulary. What a name means, with its units, is said where it is
// declared.
type (
	StepID        = format.StepID
	StepType      = format.StepType
	StepInfo      = format.StepInfo
	StepResult    = format.StepResult
	StepCommand   = format.StepCommand
	CommandOutput = format.CommandOutput
	Entry         = format.Entry
	Affected      = format.Affected
	Left          = format.Left
	Mark          = format.Mark
	Barrier       = format.Barrier
	Outside       = format.Outside
	SymlinkPolicy = format.SymlinkPolicy
	BarrierPolicy = format.BarrierPolicy
	Durability    = format.Durability
	Limits        = format.Limits
	Owner         = format.Owner
	Warning       = format.Warning
	WarningCode   = format.WarningCode
	LockedError   = format.LockedError
	VersionError  = format.VersionError
	BarrierError  = format.BarrierError
	ForeignError  = format.ForeignError
)

// The values of these types.
const (
	TypeCommand = format.TypeCommand
	TypeAPI     = format.TypeAPI
	TypeAmbient = format.TypeAmbient
	TypeBarrier = format.TypeBarrier

	SymlinkReadWrite = format.SymlinkReadWrite
	SymlinkReadOnly  = format.SymlinkReadOnly
	SymlinkIgnore    = format.SymlinkIgnore

	PolicyBarrier = format.PolicyBarrier
	PolicyWarn    = format.PolicyWarn
	PolicyLock    = format.PolicyLock

	DurabilityProcess = format.DurabilityProcess
	DurabilityPower   = format.DurabilityPower

	WarnEvicted     = format.WarnEvicted
	WarnNearLimit   = format.WarnNearLimit
	WarnUnprotected = format.WarnUnprotected
	WarnNotKept     = format.WarnNotKept
	WarnLeft        = format.WarnLeft
	WarnLeftOut     = format.WarnLeftOut
	WarnDamaged     = format.WarnDamaged
	WarnCompression = format.WarnCompression
	WarnExternal    = format.WarnExternal

	// HistoryPaths is how many affected paths a history entry lists.
	HistoryPaths = format.HistoryPaths
	// MaxLeft is how many paths that were left an answer, or an entry, lists.
	MaxLeft = format.MaxLeft
	// MaxStepCommands is how many commands a step lists.
	MaxStepCommands = format.MaxStepCommands

	// How much of a command's output is kept, in bytes: of its beginning and of its end.
	OutputHead = format.OutputHead
	OutputTail = format.OutputTail
)

// Errors of the log. Test with errors.Is / errors.As.
var (
	ErrBusy        = format.ErrBusy
	ErrInterrupted = format.ErrInterrupted
	ErrNoStep      = format.ErrNoStep
	ErrNothing     = format.ErrNothing
	ErrNoRedo      = format.ErrNoRedo
	ErrUnprotected = format.ErrUnprotected
	ErrGroup       = format.ErrGroup
	ErrMark        = format.ErrMark
	ErrDamaged     = format.ErrDamaged
	ErrEdited      = format.ErrEdited
	ErrElsewhere   = format.ErrElsewhere
	ErrClosed      = format.ErrClosed
	ErrUndoDir     = format.ErrUndoDir
)

// AsideMark is in the name of a directory with a log that [PutAside] put aside.
const AsideMark = ".aside-"

// Settings say what a log keeps, and for how long: what [undo] of the configuration says of it. Zero fields take the values of [DefaultSettings].
type Settings struct {
	Limits
	Symlinks   SymlinkPolicy
	Barriers   BarrierPolicy
	Durability Durability
	// Gitignore leaves paths that the folder's .gitignore files ignore out of
	// capture. What is ignored cannot be undone.
	Gitignore bool
}

// DefaultSettings are those that hold where nothing else is said: their only home.
func DefaultSettings() Settings {
	return Settings{Limits: format.DefaultLimits(), Symlinks: SymlinkReadWrite, Barriers: PolicyBarrier, Durability: DurabilityProcess}
}

// Options are given to [Open].
type Options struct {
	// Dir is the undo directory; it is made if it is missing.
	Dir string
	// Root is the working folder. The Log does not close it.
	Root *hostfs.Root

	Settings

	// Looks says that the log is opened to be looked at: until a call that changes something,
	// nothing is taken up, put right or tidied, neither in the folder nor in the log.
	Looks bool

	// Owner is written into the lock file for others to read.
	Owner Owner

	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger may be nil.
	Logger *slog.Logger
	// Warn is called (without locks held, from any goroutine) for what a
	// frontend should show: evictions, unprotected steps. It may be nil.
	Warn func(Warning)
}

// Recovery tells what [Log.Recover] did.
type Recovery struct {
	// StepID is the step that was open, 0 if none was.
	StepID   StepID
	Command  string
	Restored int // paths put back
	// CompletedRollback says that an interrupted undo or redo was finished.
	CompletedRollback bool
	// Kept: the open step was not rolled back. It is in the history as it is, and an undo takes it
	// back. Edited are the paths that somebody changed since it was interrupted, if that is why.
	Kept   bool
	Edited []string
	// Unprotected: the open step had outgrown its limit; it was kept and not
	// rolled back.
	Unprotected bool
	Problems    []string
}

// Interruption is a step, an undo, a redo or a restore that was cut by a kill or a failure and
// waits to be taken up.
type Interruption struct {
	// Kind is "step", and of the others, which leave the folder half changed, "undo", "redo",
	// "restore" or "rollback".
	Kind    string `json:"kind"`
	StepID  StepID `json:"step_id"`
	Command string `json:"command,omitempty"` // of that step
}

// StepDetail is a step with all its paths.
type StepDetail struct {
	Entry
	Paths []Affected `json:"paths"`
}

// LogStatus describes a log.
type LogStatus struct {
	Dir         string `json:"dir"`
	Steps       int    `json:"steps"`
	Redoable    int    `json:"redoable"`
	StoredBytes int64  `json:"stored_bytes"`
	RawBytes    int64  `json:"raw_bytes"` // of these, adopted and not compressed
	OpenStep    StepID `json:"open_step,omitempty"`
	// Interrupted is what a kill has cut, until it is taken up; or nil.
	Interrupted *Interruption `json:"interrupted,omitempty"`
	// Near says which limits at which old steps go are near, or reached.
	Near    []string `json:"near_limits,omitempty"`
	Version int      `json:"version"`
}

// State is what an undo directory looks like from outside, without opening it.
type State struct {
	Exists bool
	InUse  bool // by a process that runs
	Steps  int
	Redo   int   // undone steps
	Bytes  int64 // that both take on the disk
	// Damaged are steps that cannot be undone, Left those that an undo has left.
	Damaged, Left []StepID
	// Open is the step that is open, or was when its session was killed; 0: none.
	Open    StepID
	Command string
	// Half is the kind of the undo that was interrupted, and HalfStep its step; "": none.
	Half     string
	HalfStep StepID
	// Aside is how many steps were put aside because they were damaged.
	Aside int
}

// GCResult says what housekeeping did.
type GCResult struct {
	Evicted     []StepID `json:"evicted"`
	Compressed  []StepID `json:"compressed"`
	BytesBefore int64    `json:"bytes_before"`
	BytesAfter  int64    `json:"bytes_after"`
}

// Inside is what goes on inside a folder, at one moment.
type Inside struct {
	Last    int64        // the number of the newest change that was asked for
	Newest  func() int64 // that number now
	Idle    bool         // none is being made
	Writing []hostfs.ID  // the files that can be changed without asking
}
