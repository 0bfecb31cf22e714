package stdio

import (
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// UndoRequest is the payload of undo.rollback and undo.redo.
type UndoRequest struct {
	Directory string `json:"directory,omitempty" jsonschema:"which working directory; the first if left out"`
	Count     *int   `json:"count,omitempty" jsonschema:"how many steps; 1 if left out"`
	Group     int64  `json:"group,omitempty" jsonschema:"instead, an agent's whole run, all of it or none: the group of its steps, or -1 for that of the newest step"`
	To        string `json:"to,omitempty" jsonschema:"instead, all steps between here and this mark, all or none"`
	Force     bool   `json:"force,omitempty" jsonschema:"cross barriers: edits from outside are lost"`
	DryRun    bool   `json:"dry_run,omitempty" jsonschema:"only tell what would change"`
	Only      bool   `json:"only_folder,omitempty" jsonschema:"leave alone what the same steps changed in the git directory of the worktree, or in the worktree of the git directory"`
	AbortOpen bool   `json:"abort_open,omitempty" jsonschema:"end a command that runs and roll it back; it counts as a step"`
}

// UndoResult answers undo.rollback, undo.redo and undo.restore.
type UndoResult struct {
	Directory string        `json:"directory" jsonschema:"path of the working directory"`
	Steps     []HistoryStep `json:"steps"`
	Paths     []PathChange  `json:"paths" jsonschema:"at most 100"`
	PathCount int           `json:"path_count" jsonschema:"all of them"`
	Left      []LeftPath    `json:"left,omitempty" jsonschema:"what could not be put back, at most 100; what can be later is the newest step then"`
	LeftCount int           `json:"left_count,omitempty" jsonschema:"all of it"`
	Warnings  []string      `json:"warnings,omitempty" jsonschema:"for people"`
	DryRun    bool          `json:"dry_run,omitempty" jsonschema:"only tell what would change"`
	TookMS    int64         `json:"took_ms"`
	Also      []UndoPart    `json:"also,omitempty" jsonschema:"what was done together with it in folders that belong together with this one: all or nothing"`
}

// UndoPart is what an undo did in another folder.
type UndoPart struct {
	Directory string        `json:"directory" jsonschema:"path of the working directory"`
	Steps     []HistoryStep `json:"steps"`
	Paths     []PathChange  `json:"paths" jsonschema:"at most 100"`
	PathCount int           `json:"path_count" jsonschema:"all of them"`
	Left      []LeftPath    `json:"left,omitempty" jsonschema:"what could not be put back, at most 100"`
}

// LeftPath is a part of a path that an undo could not put back.
type LeftPath struct {
	Path   string `json:"path"`
	What   string `json:"what" jsonschema:"path, content, owner, mode, attributes or times"`
	Reason string `json:"reason" jsonschema:"for people"`
}

// PathChange is one path that an undo changed.
type PathChange struct {
	Path   string `json:"path"`
	Change string `json:"change" jsonschema:"created, deleted, modified, metadata, replaced or renamed"`
	Type   string `json:"type" jsonschema:"file, dir, symlink, fifo or socket"`
}

// HistoryResult answers undo.history.
type HistoryResult struct {
	Directory string        `json:"directory" jsonschema:"path of the working directory"`
	Steps     []HistoryStep `json:"steps" jsonschema:"newest first"`
	Truncated bool          `json:"truncated,omitempty" jsonschema:"there is more"`
}

// HistoryStep is a step, or a barrier between steps (type barrier).
type HistoryStep struct {
	StepID        int64         `json:"step_id"`
	Type          string        `json:"type" jsonschema:"command, api, ambient or barrier"`
	Command       string        `json:"command" jsonschema:"as it is shown in the history"`
	Status        string        `json:"status" jsonschema:"completed, cancelled or failed"`
	StartedAt     time.Time     `json:"started_at"`
	EndedAt       time.Time     `json:"ended_at"`
	ExitCode      *int          `json:"exit_code" jsonschema:"null where there is none"`
	AffectedPaths []string      `json:"affected_paths" jsonschema:"at most 100"`
	AffectedCount int           `json:"affected_count" jsonschema:"of paths, all of them"`
	Unprotected   bool          `json:"unprotected,omitempty" jsonschema:"not all of it could be recorded, and it cannot be undone"`
	NotKept       []string      `json:"not_kept,omitempty" jsonschema:"files whose content was too much to keep, at most 100: an undo leaves them as they are and puts back all else"`
	NotKeptCount  int           `json:"not_kept_count,omitempty" jsonschema:"of them, all"`
	Damaged       string        `json:"damaged,omitempty" jsonschema:"why it cannot be undone"`
	StoredBytes   int64         `json:"stored_bytes"`
	Barriers      []BarrierInfo `json:"barriers,omitempty" jsonschema:"edits from outside that block the undo of this step"`
	Commands      []StepCommand `json:"commands,omitempty" jsonschema:"if several ran in the step: the first 256, in the order in which they began; command is then the first, exit_code the first that is not 0"`
	CommandCount  int           `json:"command_count,omitempty" jsonschema:"of commands, all of them; left out if there was one"`
	Group         int64         `json:"group,omitempty" jsonschema:"the run of an agent that the step is a part of, by its first step; left out if there is none"`
	RestOf        int64         `json:"rest_of,omitempty" jsonschema:"it is what the undo of this step could not put back"`
	Left          []LeftPath    `json:"left,omitempty" jsonschema:"what could not be put back when an undo of the step was tried last, and why, at most 100"`
}

// StepCommand is one of several commands of a step.
type StepCommand struct {
	Command   string    `json:"command" jsonschema:"at most 4 KiB"`
	Status    string    `json:"status" jsonschema:"completed, cancelled or failed"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	ExitCode  *int      `json:"exit_code" jsonschema:"null if it did not start"`
}

// BarrierInfo is an edit from outside.
type BarrierInfo struct {
	BarrierID  uint64    `json:"barrier_id"`
	AfterStep  int64     `json:"after_step"`
	DetectedAt time.Time `json:"detected_at"`
	Paths      []string  `json:"paths"`
}

// UndoLimits bound an undo log; -1 means no limit, what is left out stays.
type UndoLimits struct {
	MaxLogSizeBytes        *int64 `json:"max_log_size_bytes,omitempty" jsonschema:"oldest steps are evicted above it"`
	MaxStepCount           *int   `json:"max_step_count,omitempty" jsonschema:"steps kept"`
	MaxSingleStepSizeBytes *int64 `json:"max_single_step_size_bytes,omitempty" jsonschema:"a file that would need more is not kept: an undo leaves it as it is"`
	MaxAgeSeconds          *int64 `json:"max_age_seconds,omitempty" jsonschema:"steps older than this go"`
}

// UndoConfigure is the payload of undo.configure.
type UndoConfigure struct {
	Directory              string `json:"directory,omitempty" jsonschema:"all, if left out"`
	MaxLogSizeBytes        *int64 `json:"max_log_size_bytes,omitempty" jsonschema:"oldest steps are evicted above it; -1: no limit"`
	MaxStepCount           *int   `json:"max_step_count,omitempty" jsonschema:"steps kept"`
	MaxSingleStepSizeBytes *int64 `json:"max_single_step_size_bytes,omitempty" jsonschema:"a file that would need more is not kept: an undo leaves it as it is"`
	MaxAgeSeconds          *int64 `json:"max_age_seconds,omitempty" jsonschema:"steps older than this go"`
}

// UndoLimitsResult answers undo.configure.
type UndoLimitsResult struct {
	MaxLogSizeBytes        int64 `json:"max_log_size_bytes"`
	MaxStepCount           int   `json:"max_step_count"`
	MaxSingleStepSizeBytes int64 `json:"max_single_step_size_bytes"`
	MaxAgeSeconds          int64 `json:"max_age_seconds"`
}

// DirectoryRequest is the payload of what concerns one folder.
type DirectoryRequest struct {
	Directory string `json:"directory,omitempty" jsonschema:"which working directory; the first if left out"`
}

// DiscardResult answers undo.discard.
type DiscardResult struct {
	Directory  string `json:"directory" jsonschema:"path of the working directory"`
	BytesFreed int64  `json:"bytes_freed"`
}

// ShowRequest is the payload of undo.show.
type ShowRequest struct {
	Directory string `json:"directory,omitempty" jsonschema:"which working directory; the first if left out"`
	StepID    int64  `json:"step_id,omitempty" jsonschema:"a step; 0 or left out: the newest that can be undone"`
	Offset    int    `json:"offset,omitempty" jsonschema:"how many paths to leave out first"`
	Limit     int    `json:"limit,omitempty" jsonschema:"how many paths; 100 if left out, at most 10000"`
}

// ShowResult answers undo.show.
type ShowResult struct {
	Directory string       `json:"directory" jsonschema:"path of the working directory"`
	Step      HistoryStep  `json:"step"`
	Paths     []PathChange `json:"paths" jsonschema:"from offset on, in the order of the log, which stays the same"`
	PathCount int          `json:"path_count" jsonschema:"all of them"`
	Truncated bool         `json:"truncated,omitempty" jsonschema:"there is more: ask again with a larger offset"`
}

// DiffRequest is the payload of undo.diff.
type DiffRequest struct {
	Directory string `json:"directory,omitempty" jsonschema:"which working directory; the first if left out"`
	StepID    int64  `json:"step_id,omitempty" jsonschema:"a step; 0 or left out: everything since the oldest step kept"`
	MaxBytes  int    `json:"max_bytes,omitempty" jsonschema:"cut off beyond; at most and by default 1 MiB"`
}

// DiffResult answers undo.diff.
type DiffResult struct {
	Diff      string `json:"diff" jsonschema:"unified"`
	Encoding  string `json:"encoding,omitempty" jsonschema:"base64 if the diff is not UTF-8"`
	Truncated bool   `json:"truncated,omitempty" jsonschema:"there is more"`
}

func barrierInfos(list []undolog.Barrier) []BarrierInfo {
	out := make([]BarrierInfo, len(list))
	for i, b := range list {
		out[i] = BarrierInfo{b.ID, int64(b.After), b.At, api.OrEmpty(b.Paths)}
	}
	return out
}
