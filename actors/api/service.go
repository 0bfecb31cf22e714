package api

import (
	"context"
	"io"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Service is everything that can be asked about working folders and their
// history. Three things implement it: a live session in this process, a
// client of another process's control socket, and a session without a machine
// that opens the logs itself. Callers need not know which they have. Methods
// are safe for concurrent use. Errors keep their identity across the socket
// for the sentinel errors of undolog and messages (errors.Is, errors.As).
type Service interface {
	Reporter
	Historian
	Undoer
	Decider
	// Close gives up the service: a client disconnects, a session stops.
	Close(ctx context.Context) error
}

// Reporter says what a session is doing.
type Reporter interface {
	// Status asks no actor and no disk.
	Status(ctx context.Context) (Status, error)
	// Inspect returns the live actor tree.
	Inspect(ctx context.Context) (Tree, error)
}

// Historian reads the undo logs and keeps house in them.
type Historian interface {
	History(ctx context.Context, r HistoryRequest) ([]undolog.Entry, error)
	// Show returns one step; without a step the newest that can be undone.
	Show(ctx context.Context, r StepRequest) (undolog.StepDetail, error)
	// Diff writes a unified diff of what the step changed (or, without a step,
	// of everything since the oldest step kept) to w.
	Diff(ctx context.Context, r StepRequest, w io.Writer) error
	// Content writes what a file held before or after a step to w. A file that was not there
	// is fs.ErrNotExist.
	Content(ctx context.Context, r ContentRequest, w io.Writer) error
	// Output returns what was kept of what the commands of a step wrote, in the order in which they ended; without a step, of the
	// newest one's.
	Output(ctx context.Context, r StepRequest) ([]undolog.CommandOutput, error)
	GC(ctx context.Context, r GCRequest) (undolog.GCResult, error)
}

// Undoer changes folders by their history. None of its methods is cut short when
// ctx ends: only the wait is.
type Undoer interface {
	// Undo undoes steps, the newest first. With AbortOpen a step that is open is
	// rolled back first; it is one of the Count.
	Undo(ctx context.Context, r UndoRequest) (UndoResult, error)
	Redo(ctx context.Context, r UndoRequest) (UndoResult, error)
	Restore(ctx context.Context, r RestoreRequest) (UndoResult, error)
	// Mark names the place after the newest step, or takes a mark away, and returns the
	// marks of the folder. While a command runs it is ErrBusy. An empty request only asks.
	Mark(ctx context.Context, r MarkRequest) ([]undolog.Mark, error)
}

// Decider lists and decides safeguards.
type Decider interface {
	// Pending lists undecided safeguards, oldest first.
	Pending(ctx context.Context) ([]Pending, error)
	Decide(ctx context.Context, r DecideRequest) error
}

// HistoryRequest asks for the history of one directory, newest first.
type HistoryRequest struct {
	// Directory is an index or a path; empty means the first.
	Directory string `json:"directory,omitempty"`
	Limit     int    `json:"limit,omitempty"` // 0 means all
	// Undone lists before them the steps that a redo would do again, each with Undone set:
	// they are newer than all others. They do not count for Limit.
	Undone bool `json:"undone,omitempty"`
}

// StepRequest names a step.
type StepRequest struct {
	Directory string         `json:"directory,omitempty"`
	Step      undolog.StepID `json:"step,omitempty"` // 0: the newest, or all (diff)
}

// ContentRequest names a file at a step.
type ContentRequest struct {
	Directory string         `json:"directory,omitempty"`
	Step      undolog.StepID `json:"step"`
	// Path is relative to the folder.
	Path  string `json:"path"`
	After bool   `json:"after,omitempty"` // else before the step
}

// UndoRequest asks to undo or redo Count steps.
type UndoRequest struct {
	Directory string `json:"directory,omitempty"`
	Count     int    `json:"count"`
	// Group, if it is not 0, names all steps of an agent's run instead, as in
	// [undolog.UndoOptions]: all of them are undone, or none. AbortOpen is refused then, and with To.
	Group undolog.StepID `json:"group,omitempty"`
	// To, if it is not empty, names all steps between here and this mark instead.
	To     string `json:"to,omitempty"`
	Force  bool   `json:"force,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
	// Careful refuses to do steps again that were rolled back, as [undolog.UndoOptions] says: who asks is not the user.
	Careful bool `json:"careful,omitempty"`
	// OnlyFolder leaves alone what the same steps changed in folders that belong together with this one (see
	// [Directory]). Without it a step is taken as a whole: in all of them, or in none.
	OnlyFolder bool `json:"only_folder,omitempty"`
	// Exact is for who has looked at the histories: the next Count steps of this folder, and nothing else.
	Exact bool `json:"exact,omitempty"`
	// AbortOpen lets an undo fail and roll back a step that is open; without it
	// that is ErrBusy.
	AbortOpen bool `json:"abort_open,omitempty"`
	// Wait is how long the request may wait in the session's queue, first come
	// first served, while a command runs or waits; then, and at once if it is 0,
	// that is ErrBusy. An undo that has its turn is not cut short.
	Wait time.Duration `json:"wait_ns,omitempty"`
	// Progress is told how much is done, if the session is of this process. It may be nil.
	Progress undolog.Progress `json:"-"`
}

// MarkRequest sets a mark, or deletes one: in all folders that belong together, as an undo to it takes steps as a
// whole. Without a name it does neither.
type MarkRequest struct {
	Directory string `json:"directory,omitempty"`
	Name      string `json:"name,omitempty"`
	Delete    bool   `json:"delete,omitempty"`
	// OnlyFolder as in [UndoRequest].
	OnlyFolder bool `json:"only_folder,omitempty"`
}

// UndoResult says what an undo, redo or restore did, or would do (dry run).
type UndoResult struct {
	Directory string             `json:"directory"`
	Steps     []undolog.Entry    `json:"steps"`
	Paths     []undolog.Affected `json:"paths,omitempty"`
	PathCount int                `json:"path_count"`
	Warnings  []string           `json:"warnings,omitempty"`
	// Left are the first [undolog.MaxLeft] of LeftCount things that could not be put back, and why.
	Left      []undolog.Left `json:"left,omitempty"`
	LeftCount int            `json:"left_count,omitempty"`
	DryRun    bool           `json:"dry_run,omitempty"`
	Took      time.Duration  `json:"took_ns"`
	// Also is what was done in other folders together with it.
	Also []UndoResult `json:"also,omitempty"`
}

// RestoreRequest puts one path (and what is below it) back to how it was
// before the step.
type RestoreRequest struct {
	Directory string         `json:"directory,omitempty"`
	Path      string         `json:"path"`
	Step      undolog.StepID `json:"step"`
	Force     bool           `json:"force,omitempty"`
	DryRun    bool           `json:"dry_run,omitempty"`
	Origin    Origin         `json:"origin,omitzero"`
	// Progress as in [UndoRequest].
	Progress undolog.Progress `json:"-"`
}

// GCRequest asks for housekeeping.
type GCRequest struct {
	Directory   string `json:"directory,omitempty"`
	CompressAll bool   `json:"compress_all,omitempty"`
	Discard     bool   `json:"discard,omitempty"` // drop the whole history
	// Progress as in [UndoRequest].
	Progress undolog.Progress `json:"-"`
}

// Status describes a session or, offline, its directories.
type Status struct {
	Session     string            `json:"session,omitempty"`
	State       string            `json:"state"` // "offline", "starting", "active", "stopping", "failed"
	PID         int               `json:"pid,omitempty"`
	Isolation   string            `json:"isolation,omitempty"`
	StartedAt   time.Time         `json:"started_at,omitzero"`
	Directories []DirectoryStatus `json:"directories"`
	OpenStep    *undolog.StepID   `json:"open_step,omitempty"`
	OpenCommand string            `json:"open_command,omitempty"`
	Running     []RunningCommand  `json:"running,omitempty"` // in the open step
	Pending     int               `json:"pending_safeguards"`
	Machine     map[string]string `json:"machine,omitempty"`
	// Console are the last lines on a virtual machine's console, the newest last. They are the guest's: hostile text,
	// though without control characters.
	Console []string `json:"console,omitempty"`
}

// RunningCommand is a command that runs.
type RunningCommand struct {
	Command   string    `json:"command"`
	Dir       string    `json:"dir,omitempty"`
	StartedAt time.Time `json:"started_at"`
}

// DirectoryStatus describes one working folder.
type DirectoryStatus struct {
	Index   int               `json:"index"`
	Path    string            `json:"path"`
	Label   string            `json:"label,omitempty"`
	Access  string            `json:"access"` // "read_write" or "read_only"
	UndoDir string            `json:"undo_dir"`
	State   string            `json:"state"` // "ok", "read_only", "recovering", "version_mismatch"
	Problem string            `json:"problem,omitempty"`
	Log     undolog.LogStatus `json:"log"`
	Bridge  *BridgeStatus     `json:"bridge,omitempty"` // nil while none serves the folder
}

// BridgeStatus describes the server of a working folder.
type BridgeStatus struct {
	Kind     string `json:"kind"`     // "fuse"
	Protocol string `json:"protocol"` // what it speaks: "FUSE"
	Cache    string `json:"cache"`    // what the guest's kernel may keep: "long" or "none"
	// MountPoint is where commands see the folder.
	MountPoint string `json:"mount_point"`
	InFlight   int    `json:"in_flight"` // requests being served, held ones included
	// Requests counts what was served, by kind.
	Requests map[string]uint64 `json:"requests,omitempty"`
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

// Tree is the live actor tree.
type Tree struct {
	Session string    `json:"session"`
	At      time.Time `json:"at"`
	Root    TreeNode  `json:"root"`
}

// TreeNode is one actor.
type TreeNode struct {
	Name      string            `json:"name"`
	PID       string            `json:"pid"`
	State     string            `json:"state"`
	Mailbox   int               `json:"mailbox"`
	Restarts  int               `json:"restarts"`
	LastError string            `json:"last_error,omitempty"`
	Holds     int               `json:"holds,omitempty"`
	BytesHeld int64             `json:"bytes_in_flight,omitempty"`
	Facts     map[string]string `json:"facts,omitempty"`
	// Messages are the last that the actor took from its mailbox, the oldest first: at most 24.
	Messages []ActorMessage `json:"messages,omitempty"`
	Children []TreeNode     `json:"children,omitempty"`
}

// ActorMessage is a message that an actor has taken from its mailbox, without what it holds.
type ActorMessage struct {
	Type             string    `json:"type"` // with its package: "interceptor.Close"
	At               time.Time `json:"at"`
	TookMicroseconds int64     `json:"took_us"` // so far, while Running
	Running          bool      `json:"running,omitempty"`
	Panicked         bool      `json:"panicked,omitempty"`
}

// SessionInfo names a running session.
type SessionInfo struct {
	Session     string   `json:"session"`
	PID         int      `json:"pid"`
	Socket      string   `json:"socket"`
	Directories []string `json:"directories"`
	// Labels has one for each directory (empty for one without), or is nil.
	Labels []string `json:"labels,omitempty"`
}
