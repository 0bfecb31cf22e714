package api

import (
	"context"
	"net"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Live is a running session as frontends drive it. Methods are safe for
// concurrent use.
type Live interface {
	Service
	Runner
	OutputKeeper
	Services
	Commander
	Decisions
	Networked
	Notifier
	Files
	Viewer
	Manager
	Audience
	Frontends
	Dialer
	Spender
	ID() string
	// Done is closed when the session has ended, by itself or by Close.
	Done() <-chan struct{}
}

// Dialer connects to programs inside.
type Dialer interface {
	// Dial connects to a TCP port of the guest's own loopback, as a program inside would. The other end is as hostile as the guest. The error wraps [errors.ErrUnsupported] if the runtime has no
	// such connections ([hypervisor.Dialer]).
	Dial(ctx context.Context, port uint16) (net.Conn, error)
}

// Spender tells what programs inside have had of the machine.
type Spender interface {
	// CPUTime is how much time of processors they have had since the runtime started, with those that have ended; Reset begins anew. The error wraps [errors.ErrUnsupported] if the runtime cannot tell ([hypervisor.Spender]).
	CPUTime(ctx context.Context) (time.Duration, error)
}

// Manager changes a running session's settings.
type Manager interface {
	// Reset ends all commands and starts the runtime afresh (an ephemeral one is
	// as new, a persistent one is wiped); folders and their history stay. A
	// command that runs is cancelled and its step closed: it can be undone. If the
	// new guest does not start, the session has failed; its history can still be
	// used, and Reset tried again.
	Reset(ctx context.Context) error
	// Safeguards returns the settings now, ConfigureSafeguards replaces them;
	// what is held already stays held.
	Safeguards(ctx context.Context) (Safeguards, error)
	ConfigureSafeguards(ctx context.Context, s Safeguards) error
	// Limits and ConfigureLimits do so for the undo log of one folder, or with
	// an empty directory for all. What is above the new limits is evicted before
	// ConfigureLimits returns.
	Limits(ctx context.Context, directory string) (undolog.Limits, error)
	ConfigureLimits(ctx context.Context, directory string, l undolog.Limits) error
	// Warnings lists what a folder's history and bridge have to say
	// (unprotected steps, evictions, unusual names), newest last.
	Warnings(ctx context.Context, directory string) ([]undolog.Warning, error)
}

// Audience says who decides.
type Audience interface {
	// AttachDecider says that a frontend of that name ("stdio", "terminal") shows
	// pending decisions to a person until detach is called, which may be more
	// than once. Deciders lists who does now, sorted: with none, nobody will
	// answer before the deadline denies.
	AttachDecider(name string) (detach func())
	Deciders() []string
}

// Origin says who asked, for events, logs and the audit.
type Origin struct {
	Frontend  string `json:"frontend,omitempty"`   // "stdio", "mcp", "cli"
	RequestID string `json:"request_id,omitempty"` // the frontend's own correlation id
	// Tool is "write_file", "edit_file", ...; it begins the text that the
	// history shows for an API step.
	Tool string `json:"tool,omitempty"`
}
