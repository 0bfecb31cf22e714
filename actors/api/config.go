package api

import (
	"log/slog"
	"os"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/messages"
)

// Config is what a session is made of. What its runtime does not have ([hypervisor.Features]) does nothing: whoever makes one asks [hypervisor.Choose] first.
type Config struct {
	// SessionID; empty makes one.
	SessionID string
	// Directories: one to eight working folders.
	Directories []Directory
	// Runtime runs the commands; nil means none: history and undo only.
	Runtime hypervisor.Runtime
	// ConfigFiles are registered with the session: what configuration it was started with, for callers who join
	// (cmd/sandbox/internal/shortcut). The session does not look at them.
	ConfigFiles []string
	// MachineFiles are what the runtime reads when it starts a machine again ([Manager.Reset]). The session does not look at them.
	MachineFiles []string
	// RuntimeDir holds the control socket; it is made with mode 0700. Empty
	// means no control socket.
	RuntimeDir string

	Undo
	Safeguards Safeguards
	Serving
	// Jail goes to the guest as it is; what the session hides is added.
	hypervisor.Jail
	// Agents keep keys, by name ("ssh", "gpg"): programs inside may ask for the use of a key, which a person decides. AllowUse are patterns of
	// uses that nobody is asked about, as rules of the policy have them.
	Agents   map[string]Agent
	AllowUse []string
	// Places are what can be written in a jail beside the folders.
	Places hypervisor.Places
	// Resources are what everything in a jail may take together.
	Resources hypervisor.Limits
	// FolderBytes is how much larger all folders together may become while the session lives, in bytes; 0: there is no limit.
	FolderBytes int64
	// Network is what commands may reach, in a jail or a virtual machine. Where it publishes ports, the runtime's guests are [hypervisor.Dialer].
	Network policy.Network
	// Umask is taken from the modes of files that frontends write. It is the
	// user's: the program's own is zero (hostfs.ClearUmask).
	Umask uint32

	// Settings are what the session was started with, for commands that join it: see
	// [Setting]. It has all that somebody may ask for.
	Settings []Setting
	// Stop ends the session when somebody asks for it over the control socket; it
	// must not block. Nil: the session cannot be ended in that way.
	Stop func()
	// Idle, if it is not 0, is how long the session goes on without connections to its
	// control socket. Then it calls Stop.
	Idle time.Duration

	// Attended reports whether a person can be asked now, beside the frontends of [Audience]. Where nobody can, what would be held is refused at once. Nil: somebody can, always. It is called
	// for each question, by several goroutines at once, and must not block.
	Attended func() bool

	// Readers finds the regular files that whoever reads one of the pipes has open; nil: the session's process looks for itself, which it cannot do behind Landlock. It may be called by several goroutines at once.
	Readers func(pipes []FileID) []FileID

	// Applied hears of each undo, redo and restore that has been done ("undo", "redo", "restore"), and how long it took without the wait for its turn. It must not block. Nil: nobody does.
	Applied func(operation string, took time.Duration)

	// Commands is how many commands run at once at most; 0 means [messages.Commands].
	Commands int

	Timing Timing
	// Clock is injected by tests; nil means the real one.
	Clock Clock
	// Logger may be nil.
	Logger *slog.Logger
	// PanicLog receives stacks of crashed actors; nil means the logger only.
	PanicLog *os.File
}

// Directory is one working folder of a session.
type Directory struct {
	Path     string
	Label    string
	ReadOnly bool
	// UndoDir; empty means the default of actors.DefaultUndoDir.
	UndoDir string
	// Repository, if it is not empty, is the git directory that the folder is, or of which it is a worktree or submodule.
	// Folders with the same one belong together: a step is undone in all of them, or in none.
	Repository string `json:",omitempty"`
}

// Undo is what holds of each working folder's log: what [undo] of the configuration says.
type Undo struct {
	undolog.Settings
	// KeepOutput keeps what commands write to stdout and stderr with their steps.
	KeepOutput bool
}

// Serving is how the folders are served: what [bridge] of the configuration says.
type Serving struct {
	// Bridge is how a jail reaches the folders; empty is [hypervisor.BridgeFUSE].
	Bridge hypervisor.Bridge
	// Cache is what kernels may keep of a folder; empty is [CacheAuto].
	Cache Cache
	// PosixMetadata serves the folders as if their file system were Windows': names
	// that Windows does not take are refused, and modes, owners and symlinks are kept
	// beside the undo log.
	PosixMetadata bool
}

// Cache says what the kernel that has a folder mounted may keep of it: the word of --cache.
type Cache string

// The caches.
const (
	CacheAuto Cache = "auto"
	// CacheNone has every access go to the bridge (strict mode).
	CacheNone Cache = "none"
)

// Safeguards are [messages.Safeguards].
type Safeguards = messages.Safeguards

// Timing holds the windows of the specification: what [steps] of the configuration says. Zero fields take the defaults
// ([messages.QuietTime] and its neighbours).
type Timing struct {
	QuiescenceIdle time.Duration
	QuiescenceMax  time.Duration
	AmbientIdle    time.Duration
	// ReplyDeadline bounds how long an Interceptor may leave a bridge without
	// an answer (not counting holds) before the operation fails with EIO; 5 s.
	ReplyDeadline time.Duration
	// ServiceAfter is how long a command of the session ([Commander]) runs in a step before it becomes a service; below 0: it never does.
	ServiceAfter time.Duration
}

// Clock is the time that actors see.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in its own goroutine after d. stop reports whether it
	// prevented the call.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// Agent is an agent outside that keeps keys.
type Agent struct {
	// Socket is its own.
	Socket string
	// Names are of the keys of a gpg-agent, by their grips in capital letters.
	Names map[string]string
	// Files are public keys that programs inside read, see [hypervisor.Agent].
	Files map[string]string
}

// FileID is a file of this machine, as long as it is there.
type FileID struct{ Device, Inode uint64 }
