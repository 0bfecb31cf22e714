package api

import (
	"context"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Reporter says what a session is doing.
type Reporter interface {
	// Status asks no actor and no disk.
	Status(ctx context.Context) (Status, error)
	// Inspect returns the live actor tree.
	Inspect(ctx context.Context) (Tree, error)
}

func statusOperations() []Operation {
	return []Operation{
		{Control: "status", Traits: Reads, Call: gets(Reporter.Status)},
		{Control: "inspect", Traits: Reads, Call: gets(Reporter.Inspect)},
	}
}

func (c Remote) Status(ctx context.Context) (Status, error) {
	return ask[Status](ctx, c, "status", None{})
}

func (c Remote) Inspect(ctx context.Context) (Tree, error) {
	return ask[Tree](ctx, c, "inspect", None{})
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
