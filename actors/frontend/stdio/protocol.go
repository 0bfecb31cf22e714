package stdio

import "time"

// Version is the version of the protocol that is spoken here.
const Version = 1

// Limits of the protocol.
const (
	// MaxLine is the longest line that a client may send, in bytes.
	MaxLine = 1 << 20
	// MaxInFlight is how many requests may be in flight at once.
	MaxInFlight = 256
	// MaxControl is how many more may be that ask, decide or cancel.
	MaxControl = 256
	// MaxRequestID is the longest request_id, in bytes.
	MaxRequestID = 256
	// MaxContent is the most that one answer carries of a file or diff, in bytes
	// before encoding.
	MaxContent = 1 << 20
	// MaxEntries is the most that one answer lists.
	MaxEntries = 10_000
)

// Here are the requests and results that look otherwise than those of package api, or that it has not. In the types of requests a field without omitempty is
// required, and a Directory names a working folder. The jsonschema tags are the fields' descriptions in the schemas.

// HelloRequest is the payload of hello.
type HelloRequest struct {
	ProtocolVersion int    `json:"protocol_version,omitempty" jsonschema:"the version that the client speaks; 1 if it says nothing"`
	Client          string `json:"client,omitempty" jsonschema:"the client's name and version, for the log"`
}

// HelloResult answers hello.
type HelloResult struct {
	ProtocolVersion   int      `json:"protocol_version"`
	SupportedVersions []int    `json:"supported_versions"`
	AgentVersion      string   `json:"agent_version"`
	MaxLineBytes      int      `json:"max_line_bytes"`
	MaxInFlight       int      `json:"max_in_flight"`
	Operations        []string `json:"operations" jsonschema:"the requests that there are"`
}

// StartRequest is the payload of session.start. Empty fields mean what the
// program was started with.
type StartRequest struct {
	ProtocolVersion    int                 `json:"protocol_version,omitempty" jsonschema:"as in hello"`
	WorkingDirectories []WorkingDirectory  `json:"working_directories,omitempty" jsonschema:"one to eight; may be left out if the program was started with some"`
	NetworkPolicy      string              `json:"network_policy,omitempty" jsonschema:"open, ask, allowlist, disabled, pod or pod-ask"`
	NetworkAllow       []string            `json:"network_allow,omitempty" jsonschema:"what allowlist and ask allow: addresses, ranges, domains, with ports; as --allow-host"`
	VMMode             string              `json:"vm_mode,omitempty" jsonschema:"persistent or ephemeral"`
	Isolation          string              `json:"isolation,omitempty" jsonschema:"auto, vm, jail, landlock or none"`
	UndoLimits         *UndoLimits         `json:"undo_limits,omitempty" jsonschema:"as in undo.configure"`
	Safeguards         *SafeguardConfigure `json:"safeguards,omitempty" jsonschema:"as in safeguard.configure"`
	BarrierPolicy      string              `json:"barrier_policy,omitempty" jsonschema:"barrier, warn or lock"`
	SymlinkPolicy      string              `json:"symlink_policy,omitempty" jsonschema:"read-write, read-only or ignore"`
	Durability         string              `json:"durability,omitempty" jsonschema:"process or power"`
	Gitignore          *bool               `json:"gitignore,omitempty" jsonschema:"leave ignored paths out of the undo log"`
}

// WorkingDirectory is one working folder.
type WorkingDirectory struct {
	Path    string `json:"path" jsonschema:"absolute path on the host"`
	Label   string `json:"label,omitempty" jsonschema:"a name for the directory parameter"`
	Access  string `json:"access,omitempty" jsonschema:"read_write (default) or read_only"`
	UndoDir string `json:"undo_dir,omitempty" jsonschema:"where its undo log is kept"`
}

// SessionInfo answers session.start.
type SessionInfo struct {
	SessionID          string          `json:"session_id"`
	ProtocolVersion    int             `json:"protocol_version"`
	Isolation          string          `json:"isolation" jsonschema:"the runtime: jail, landlock, vm or none"`
	WorkingDirectories []DirectoryInfo `json:"working_directories"`
}

// DirectoryInfo describes a working folder.
type DirectoryInfo struct {
	Index    int       `json:"index" jsonschema:"from 0"`
	Path     string    `json:"path"`
	Label    string    `json:"label,omitempty" jsonschema:"its name, if it was given one"`
	MountTag string    `json:"mount_tag" jsonschema:"its tag in a virtual machine; a jail mounts it at its own path"`
	Access   string    `json:"access"`
	State    string    `json:"state" jsonschema:"ok, read_only, recovering or version_mismatch"`
	Problem  string    `json:"problem,omitempty" jsonschema:"what is wrong, for people"`
	UndoDir  string    `json:"undo_dir,omitempty" jsonschema:"where its undo log is"`
	Undo     *UndoInfo `json:"undo,omitempty" jsonschema:"left out where there is no history: the directory is read-only"`
	// Bridge is nil while there is none.
	Bridge *BridgeInfo `json:"bridge,omitempty" jsonschema:"the filesystem backend that serves the directory; left out while none does"`
}

// UndoInfo describes an undo log.
type UndoInfo struct {
	Steps             int   `json:"steps" jsonschema:"that can be undone"`
	Redoable          int   `json:"redoable" jsonschema:"steps that can be done again"`
	StoredBytes       int64 `json:"stored_bytes" jsonschema:"that the undo directory takes"`
	UncompressedBytes int64 `json:"uncompressed_bytes" jsonschema:"of these, removed files that are kept as they were"`
	FormatVersion     int   `json:"format_version" jsonschema:"of the log on disk"`
}

// BridgeInfo describes the server of a working folder.
type BridgeInfo struct {
	Kind       string `json:"kind" jsonschema:"fuse, virtiofs or 9p"`
	Protocol   string `json:"protocol" jsonschema:"what it speaks with the kernel that mounts it"`
	Cache      string `json:"cache" jsonschema:"what that kernel may keep: long or none"`
	MountPoint string `json:"mount_point" jsonschema:"where commands see the directory"`
	InFlight   int    `json:"in_flight" jsonschema:"requests being served, held ones included"`
	Requests   uint64 `json:"requests" jsonschema:"served since it was mounted"`
	// RequestCounts is filled by fs.status only.
	RequestCounts map[string]uint64 `json:"request_counts,omitempty" jsonschema:"the same by kind; in fs.status"`
}

// StopResult answers session.stop and session.reset.
type StopResult struct {
	SessionID string `json:"session_id"`
}

// StatusResult answers session.status.
type StatusResult struct {
	State              string            `json:"state" jsonschema:"none, starting, idle, running, stopping or error"`
	ProtocolVersion    int               `json:"protocol_version"`
	AgentVersion       string            `json:"agent_version"`
	SessionID          string            `json:"session_id,omitempty"`
	StartedAt          time.Time         `json:"started_at,omitzero"`
	Isolation          string            `json:"isolation,omitempty" jsonschema:"the runtime: jail, landlock, vm or none"`
	WorkingDirectories []DirectoryInfo   `json:"working_directories,omitempty"`
	OpenStep           int64             `json:"open_step,omitempty" jsonschema:"its id, while a step is open"`
	Running            []RunningCommand  `json:"running,omitempty" jsonschema:"the commands that run in it"`
	PendingSafeguards  int               `json:"pending_safeguards"`
	Pending            []Pending         `json:"pending,omitempty" jsonschema:"what waits for a decision"`
	Machine            map[string]string `json:"machine,omitempty" jsonschema:"facts of the runtime and the filesystem backend"`
}

// RunningCommand is a command that runs.
type RunningCommand struct {
	Command   string    `json:"command" jsonschema:"as it is shown in the history"`
	StartedAt time.Time `json:"started_at"`
}

// ExecuteRequest is the payload of agent.execute.
type ExecuteRequest struct {
	Directory      string            `json:"directory,omitempty" jsonschema:"where the command runs"`
	Command        string            `json:"command,omitempty" jsonschema:"run by sh -c; either this or argv"`
	Argv           []string          `json:"argv,omitempty" jsonschema:"run as it is"`
	CWD            string            `json:"cwd,omitempty" jsonschema:"relative to the directory, or absolute; inside a working directory"`
	Env            map[string]string `json:"env,omitempty" jsonschema:"added to the environment"`
	Stdin          string            `json:"stdin,omitempty" jsonschema:"text for the command to read"`
	TimeoutSeconds float64           `json:"timeout_seconds,omitempty" jsonschema:"then the command is cancelled"`
	Wait           bool              `json:"wait,omitempty" jsonschema:"wait in line while another command runs, instead of failing with busy"`
	Parallel       bool              `json:"parallel,omitempty" jsonschema:"run at the same time as other commands, in their step; with wait, wait only while as many run as may"`
}

// PromptRequest is the payload of agent.prompt.
type PromptRequest struct {
	Directory      string            `json:"directory,omitempty" jsonschema:"where the agent runs"`
	Prompt         string            `json:"prompt" jsonschema:"given to the agent command on its standard input"`
	CWD            string            `json:"cwd,omitempty"`
	Env            map[string]string `json:"env,omitempty" jsonschema:"added to the environment"`
	TimeoutSeconds float64           `json:"timeout_seconds,omitempty"`
	Wait           bool              `json:"wait,omitempty" jsonschema:"as in agent.execute"`
	Parallel       bool              `json:"parallel,omitempty" jsonschema:"as in agent.execute"`
}

// ExecuteResult answers agent.execute and agent.prompt, and is the data of
// their errors cancelled, timeout, denied and step_failed.
type ExecuteResult struct {
	StepID        int64        `json:"step_id"`
	ExitCode      *int         `json:"exit_code" jsonschema:"128+n if signal n ended the command; null if it did not run or its end is not known"`
	Signal        int          `json:"signal,omitempty" jsonschema:"the signal that ended it, if one did"`
	Outcome       string       `json:"outcome" jsonschema:"completed, cancelled, denied or failed; after the last two the step was rolled back"`
	Reason        string       `json:"reason,omitempty" jsonschema:"for people; left out if it is completed"`
	DurationMS    int64        `json:"duration_ms"`
	AffectedCount int          `json:"affected_count" jsonschema:"of paths, all of them"`
	Directories   []StepChange `json:"directories,omitempty" jsonschema:"what changed where"`
	OthersRunning int          `json:"others_running,omitempty" jsonschema:"other commands that run on in the step: it is still open, and what changed is not known yet"`
	Refused       []string     `json:"refused,omitempty" jsonschema:"for people, if the command failed: what the sandbox refused while it ran, and what would allow it, one for each cause"`
	Class         string       `json:"classification,omitempty" jsonschema:"what the command seems to do: read_only, write or destructive; advice only"`
	Warnings      []Suspicion  `json:"warnings,omitempty" jsonschema:"what looks suspicious about the command's text"`
}

// Suspicion is one thing that looks suspicious about a command's text.
type Suspicion struct {
	Code    string `json:"code" jsonschema:"docs/classifier.md lists them"`
	Message string `json:"message"`
}

// StepChange is what a step left in one folder.
type StepChange struct {
	Directory     string   `json:"directory" jsonschema:"path of the working directory"`
	AffectedPaths []string `json:"affected_paths" jsonschema:"at most 100"`
	AffectedCount int      `json:"affected_count" jsonschema:"of paths, all of them"`
}

// CancelRequest is the payload of agent.cancel.
type CancelRequest struct {
	TargetRequestID string `json:"target_request_id,omitempty" jsonschema:"all commands of this client, if left out"`
}

// CancelResult answers agent.cancel. The cancelled requests answer themselves.
type CancelResult struct {
	Cancelled []string `json:"cancelled" jsonschema:"request_ids"`
}

// ListResult answers fs.list.
type ListResult struct {
	Path      string     `json:"path"`
	Entries   []DirEntry `json:"entries" jsonschema:"sorted by path"`
	Truncated bool       `json:"truncated,omitempty" jsonschema:"there is more"`
}

// DirEntry is one name.
type DirEntry struct {
	Path       string    `json:"path" jsonschema:"relative to the directory"`
	Type       string    `json:"type" jsonschema:"file, directory, symlink or other"`
	Size       int64     `json:"size"`
	Mode       string    `json:"mode" jsonschema:"permissions, octal"`
	ModifiedAt time.Time `json:"modified_at"`
	Target     string    `json:"target,omitempty" jsonschema:"of a symlink"`
	Escaped    bool      `json:"escaped,omitempty" jsonschema:"the name is not UTF-8 and is quoted as in Go"`
}

// ReadResult answers fs.read.
type ReadResult struct {
	Path       string    `json:"path"`
	Content    string    `json:"content"`
	Encoding   string    `json:"encoding" jsonschema:"utf-8 or base64"`
	Offset     int64     `json:"offset"`
	Length     int64     `json:"length" jsonschema:"bytes of the file in content; the next part begins at offset+length"`
	Size       int64     `json:"size" jsonschema:"of the whole file"`
	Truncated  bool      `json:"truncated" jsonschema:"more follows"`
	Mode       string    `json:"mode" jsonschema:"permissions, octal"`
	ModifiedAt time.Time `json:"modified_at"`
}

// FSStatusResult answers fs.status.
type FSStatusResult struct {
	Directory DirectoryInfo     `json:"directory"`
	Isolation string            `json:"isolation,omitempty" jsonschema:"the runtime: jail, landlock, vm or none"`
	Machine   map[string]string `json:"machine,omitempty" jsonschema:"as in session.status"`
	Limits    *UndoLimitsResult `json:"limits,omitempty" jsonschema:"of its undo log; left out where there is none that can be used"`
	Warnings  []FSWarning       `json:"warnings" jsonschema:"newest last"`
}

// FSWarning is something that a person should hear of.
type FSWarning struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Steps   []int64 `json:"steps,omitempty" jsonschema:"the steps that it is about"`
}

// SafeguardConfigure is the payload of safeguard.configure. What is left out
// stays; zero switches a safeguard off.
type SafeguardConfigure struct {
	DeleteThreshold         *int      `json:"delete_threshold,omitempty" jsonschema:"deletions in one step before a decision is required"`
	OverwriteThresholdBytes *int64    `json:"overwrite_threshold_bytes,omitempty" jsonschema:"overwriting an existing file above this size is held"`
	RenameOver              *bool     `json:"rename_over,omitempty" jsonschema:"renaming over an existing file is held"`
	TimeoutSeconds          *float64  `json:"timeout_seconds,omitempty" jsonschema:"then deny"`
	Exempt                  *[]string `json:"exempt,omitempty" jsonschema:"glob patterns of paths that are never held"`
}

// SafeguardSettings answers safeguard.configure.
type SafeguardSettings struct {
	DeleteThreshold         int      `json:"delete_threshold" jsonschema:"0: off"`
	OverwriteThresholdBytes int64    `json:"overwrite_threshold_bytes" jsonschema:"0: off"`
	RenameOver              bool     `json:"rename_over"`
	TimeoutSeconds          float64  `json:"timeout_seconds"`
	Exempt                  []string `json:"exempt"`
}

// ConfirmRequest is the payload of safeguard.confirm.
type ConfirmRequest struct {
	SafeguardID string `json:"safeguard_id"`
	Action      string `json:"action" jsonschema:"allow or deny"`
}

// DecideRequest is the payload of approval.decide.
type DecideRequest struct {
	ApprovalID string `json:"approval_id" jsonschema:"the id of anything that waits for a decision, a safeguard too"`
	Action     string `json:"action" jsonschema:"allow or deny"`
}

// Pending is something that waits for a decision.
type Pending struct {
	ID          string    `json:"id"`
	Kind        string    `json:"kind"`
	Directory   string    `json:"directory" jsonschema:"path of the working directory"`
	StepID      int64     `json:"step_id"`
	Command     string    `json:"command,omitempty" jsonschema:"as it is shown in the history"`
	Count       int       `json:"count"`
	SamplePaths []string  `json:"sample_paths" jsonschema:"at most 10"`
	Message     string    `json:"message"`
	Since       time.Time `json:"since"`
	Deadline    time.Time `json:"deadline" jsonschema:"denied if nobody decides before"`
}
