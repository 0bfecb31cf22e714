package format

import (
	"errors"
	"fmt"
	"time"
)

// StepID names a step: positive for commands and API calls, negative for
// ambient steps. Ids are never reused in one log.
type StepID int64

// StepType says what opened a step.
type StepType string

// The types of history entries. A barrier is an entry, not a step.
const (
	TypeCommand StepType = "command"
	TypeAPI     StepType = "api"
	TypeAmbient StepType = "ambient"
	TypeBarrier StepType = "barrier"
)

// SymlinkPolicy says what may be done with symlinks in the working folder.
type SymlinkPolicy string

// The symlink policies. The zero value means SymlinkReadWrite.
const (
	// SymlinkReadWrite: symlinks are made, changed, captured and restored.
	SymlinkReadWrite SymlinkPolicy = "read-write"
	// SymlinkReadOnly: making one is refused; existing ones are captured when
	// they are removed or renamed.
	SymlinkReadOnly SymlinkPolicy = "read-only"
	// SymlinkIgnore: changes of symlinks are neither refused nor captured.
	SymlinkIgnore SymlinkPolicy = "ignore"
)

// BarrierPolicy says what an edit from outside does.
type BarrierPolicy string

// The barrier policies. The zero value means PolicyBarrier.
const (
	PolicyBarrier BarrierPolicy = "barrier"
	PolicyWarn    BarrierPolicy = "warn"
	PolicyLock    BarrierPolicy = "lock"
)

// Durability says what a captured preimage survives.
type Durability string

// The durabilities. The zero value means DurabilityProcess: everything is in
// the page cache before it is acknowledged, so SIGKILL loses nothing.
const (
	DurabilityProcess Durability = "process"
	// DurabilityPower: also a power failure; group-commit fsync.
	DurabilityPower Durability = "power"
)

// Limits bound the log. Zero fields take the defaults of [DefaultLimits];
// negative ones mean no limit.
type Limits struct {
	LogBytes    int64         // all steps together, undone ones too, on the disk; oldest are evicted
	StepCount   int           // steps kept; oldest are evicted
	StepBytes   int64         // one step; the content of a file that would need more is not kept
	Age         time.Duration // steps older than this are evicted at open and commit
	AdoptedRaw  int64         // bytes of adopted blobs kept uncompressed
	InlineBytes int64         // contents up to this size go into the journal
}

// DefaultLimits are the specification's (section 4.4.3), and those of
// guide figures for the raw budget.
func DefaultLimits() Limits {
	return Limits{
		LogBytes: 1 << 30, StepCount: 100, StepBytes: 200 << 20, Age: -1,
		AdoptedRaw: 1 << 30, InlineBytes: 64 << 10,
	}
}

// Owner tells who holds a log: it is the content of the lock file, as JSON.
type Owner struct {
	PID     int    `json:"pid"`
	Session string `json:"session"`
	Socket  string `json:"socket,omitempty"` // control socket to talk to
	WorkDir string `json:"working_directory"`
}

// WarningCode classifies a [Warning].
type WarningCode string

// The warnings.
const (
	WarnEvicted     WarningCode = "steps_evicted"
	WarnNearLimit   WarningCode = "limit_near"
	WarnUnprotected WarningCode = "step_unprotected"
	WarnNotKept     WarningCode = "content_not_kept"
	WarnLeft        WarningCode = "paths_left"
	WarnLeftOut     WarningCode = "mode_bits_left_out"
	WarnDamaged     WarningCode = "log_damaged"
	WarnCompression WarningCode = "compression_failed"
	WarnExternal    WarningCode = "external_modification"
)

// Warning is something that a person should hear of.
type Warning struct {
	Code    WarningCode
	Steps   []StepID
	Message string
	// Paths are the first [HistoryPaths] of those that it is about, if it is about paths.
	Paths []string `json:",omitempty"`
	// Usual: the log had said that this would come ([WarnNearLimit]), so a person need not hear of it again.
	Usual bool `json:",omitempty"`
}

// Affected is one path that a step touched. Path is relative to the working
// folder, in raw bytes; JSON carries it in a form that survives any bytes.
type Affected struct {
	Path          string `json:"path"`
	ExistedBefore bool   `json:"existed_before"`
	ExistsAfter   bool   `json:"exists_after"`
	// Change is "created", "deleted", "modified", "metadata", "replaced" or
	// "renamed".
	Change string `json:"change"`
	// Type is "file", "dir", "symlink", "fifo" or "socket".
	Type string `json:"type"`
}

// Left is a path that an undo, a redo or a rollback could not put back, and why.
type Left struct {
	Path string `json:"path"`
	// What was left: "path" (what is there, or that nothing is), "content", "owner", "mode", "attributes"
	// or "times".
	What   string `json:"what"`
	Reason string `json:"reason"`
	// NotKept: the step did not keep it, so no later undo can put it back.
	NotKept bool `json:"not_kept,omitempty"`
	// Size and Mtime (in nanoseconds) are of what is there, in a history's entry: whoever lifts what hinders
	// changes neither.
	Size  int64 `json:"size,omitempty"`
	Mtime int64 `json:"mtime_ns,omitempty"`
}

// MaxLeft is how many paths that were left an answer, or an entry, lists.
const MaxLeft = 100

// Entry is one line of the history: a step, or a barrier.
type Entry struct {
	Seq     uint64   `json:"seq"`
	StepID  StepID   `json:"step_id"`
	Type    StepType `json:"type"`
	Command string   `json:"command"`
	Argv    []string `json:"argv,omitempty"`
	Dir     string   `json:"dir,omitempty"`
	// Folders are the other working folders in the histories of which parts of the step may be: it is
	// undone as a whole.
	Folders       []string  `json:"folders,omitempty"`
	Status        string    `json:"status"`
	StartedAt     time.Time `json:"started_at"`
	EndedAt       time.Time `json:"ended_at"`
	ExitCode      *int      `json:"exit_code"`
	AffectedPaths []string  `json:"affected_paths"` // at most [HistoryPaths]; lossy for non-UTF-8
	AffectedCount int       `json:"affected_count"`
	Unprotected   bool      `json:"unprotected,omitempty"`
	// NotKept are the first [HistoryPaths] of the NotKeptCount files whose content was too much to keep: undo leaves
	// them as they are, and puts back all else.
	NotKept      []string `json:"not_kept,omitempty"`
	NotKeptCount int      `json:"not_kept_count,omitempty"`
	// LooksOnly: it changed nothing but what git keeps about its looks ('git status'). Whoever undoes the last
	// step means the one before.
	LooksOnly   bool      `json:"looks_only,omitempty"`
	Damaged     string    `json:"damaged,omitempty"` // why the step cannot be undone
	StoredBytes int64     `json:"stored_bytes"`
	Compressed  bool      `json:"compressed,omitempty"`
	Barriers    []Barrier `json:"barriers"`
	// Commands are the first [MaxStepCommands] of the CommandCount commands that ran in
	// the step, in the order in which they began; none and 0 if there was one, which
	// the fields above describe. Of several, those describe the first, and ExitCode is
	// the first that is not 0.
	Commands     []StepCommand `json:"commands,omitempty"`
	CommandCount int           `json:"command_count,omitempty"`
	// Group is the first step of the run that the step is a piece of, or was asked for by
	// a command inside; 0 if it stands alone. The group's oldest step that changed anything
	// has GroupStart: a group without it has lost its beginning.
	Group      StepID `json:"group,omitempty"`
	GroupStart bool   `json:"group_start,omitempty"`
	// RestOf: the entry is what the undo of that step had to leave. Undo puts it back when nothing hinders it any more.
	RestOf StepID `json:"rest_of,omitempty"`
	// Left are the first [MaxLeft] things that could not be put back when it was tried last.
	Left []Left `json:"left,omitempty"`
	// Undone: the step was undone, and a redo would do it again. It is set only in answers that
	// list such steps, and never stored.
	Undone bool `json:"undone,omitempty"`
}

// Mark is a named place between steps.
type Mark struct {
	Name string `json:"name"`
	// After and Seq are those of the step after which it was set; 0: there was none.
	After StepID    `json:"after_step,omitempty"`
	Seq   uint64    `json:"seq,omitempty"`
	At    time.Time `json:"at"`
	// Lost says why nothing leads back to it any more.
	Lost string `json:"lost,omitempty"`
}

// StepCommand is one of several commands of a step. Long texts are cut.
type StepCommand struct {
	Command   string    `json:"command"`
	Dir       string    `json:"dir,omitempty"`
	Status    string    `json:"status"` // "completed", "cancelled" or "failed"
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	ExitCode  *int      `json:"exit_code"` // nil: it did not start
}

// CommandOutput is what a command of a step wrote to stdout and stderr, together, in the order in which it arrived.
type CommandOutput struct {
	Command   string    `json:"command"` // at most OutputCommand bytes
	StartedAt time.Time `json:"started_at"`
	// Bytes is how many it wrote, LeftOut how many of them are not in Data: they come after
	// the first Cut bytes of it.
	Bytes   int64  `json:"bytes"`
	LeftOut int64  `json:"left_out,omitempty"`
	Cut     int    `json:"cut,omitempty"`
	Data    []byte `json:"data"`
}

// How much of a command's output is kept, in bytes: of its beginning, of its end, and of the
// command's text.
const (
	OutputHead    = 32 << 10
	OutputTail    = 96 << 10
	OutputCommand = 4 << 10
)

// MaxStepCommands is how many commands a step lists.
const MaxStepCommands = 256

// HistoryPaths is how many affected paths a history entry lists.
const HistoryPaths = 100

// Barrier is an edit from outside that an undo may not cross.
type Barrier struct {
	ID uint64 `json:"barrier_id"`
	// After is the newest step that an undo would have to cross the barrier to
	// reach: undoing it or an older one is blocked.
	After StepID    `json:"after_step"`
	At    time.Time `json:"detected_at"`
	Paths []string  `json:"paths"`
}

// Outside says of paths that were seen changing who changed them. Those that it does not name were changed by what
// runs inside, or are as the steps left them.
type Outside struct {
	Barriers []Barrier // of those that are not as the steps left them
	Others   []string  // nobody inside has touched them, so somebody outside changed them
	Unsure   []string  // nobody can tell
}

// Errors of the log. Test with errors.Is / errors.As.
var (
	ErrBusy        = errors.New("a step is open")
	ErrNoStep      = errors.New("no such step")
	ErrNothing     = errors.New("nothing to undo")
	ErrNoRedo      = errors.New("nothing to redo")
	ErrUnprotected = errors.New("step is unprotected: not all of it could be recorded, and it cannot be undone")
	ErrGroup       = errors.New("this run cannot be taken as a whole")
	ErrMark        = errors.New("marks")
	ErrDamaged     = errors.New("step is damaged")
	ErrEdited      = errors.New("it was changed outside the sandbox since, and the log does not have all that it held")
	ErrElsewhere   = errors.New("this would take away what was somewhere else then")
	ErrClosed      = errors.New("the undo log is closed")
	ErrUndoDir     = errors.New("unusable undo directory")
	// ErrInterrupted is an ErrBusy, returned by what does not complete an interrupted undo itself.
	ErrInterrupted error = interruptedError{}
)

type interruptedError struct{}

func (interruptedError) Error() string {
	return "the folder is half undone, because an undo, a redo or a restore was interrupted; 'sandbox undo' or 'sandbox redo' completes it"
}

func (interruptedError) Is(target error) bool { return target == ErrBusy }

// LockedError: another process holds the log.
type LockedError struct {
	Dir   string
	Owner Owner // zero if the lock file could not be read
	// Moved: the owner has the folder open by a name that it had before, so that nothing comes of waiting for it.
	Moved bool
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("undo directory %s is in use by sandbox process %d (session %q)", e.Dir, e.Owner.PID, e.Owner.Session)
}

// VersionError: the log was written by another version of the format. Nothing
// of it is touched until [Discard].
type VersionError struct {
	Dir         string
	Found, Want int
	// WorkDir is the folder whose log it is, if whoever opened it has said so.
	WorkDir string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("undo directory %s has format %d, this program writes %d: its history cannot be used; 'sandbox gc --discard' throws it away; --undo-dir DIR leaves it alone and begins a new one in another directory", e.Dir, e.Found, e.Want)
}

// BarrierError: an undo would destroy edits from outside.
type BarrierError struct{ Barriers []Barrier }

func (e *BarrierError) Error() string {
	n := 0
	for _, b := range e.Barriers {
		n += len(b.Paths)
	}
	first := ""
	if n > 0 {
		for _, b := range e.Barriers {
			if len(b.Paths) > 0 {
				first = b.Paths[0]
				break
			}
		}
	}
	return fmt.Sprintf("%d path(s) changed outside the sandbox since (first: %q); use --force to overwrite them", n, first)
}

// StepInfo opens a step.
type StepInfo struct {
	Type StepType
	// Command is what is shown in the history; empty for ambient steps.
	Command string
	// Argv and Dir are kept for show.
	Argv []string `json:",omitempty"`
	Dir  string   `json:",omitempty"`
	// Folders as in [Entry].
	Folders []string `json:",omitempty"`
	// Group as in [Entry], if it is known already.
	Group StepID `json:",omitempty"`
}

// StepResult closes a step.
type StepResult struct {
	// ExitCode is nil where there is none (ambient, cancelled by a crash).
	ExitCode *int
	// Status is "completed", "cancelled" or "failed".
	Status string
	// Commands and CommandCount as in [Entry].
	Commands     []StepCommand
	CommandCount int
	// Group as in [Entry]. That of [StepInfo] counts before it.
	Group StepID
}
