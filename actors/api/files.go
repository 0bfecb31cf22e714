package api

import (
	"context"

	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Files reads and writes files of the working folders from the host's side:
// what frontends do themselves instead of running a command. Paths are relative
// to the folder (an absolute path is accepted when it lies inside the folder); no
// symlink is followed out of it, and what is hidden from commands is hidden here.
// Writes are steps of type "api" and pass the same hooks, safeguards included, as
// a command's.
type Files interface {
	ReadFile(ctx context.Context, r ReadFileRequest) (FileContent, error)
	// WriteFile replaces or creates a file as one API step. While a command runs
	// it joins that command's step.
	WriteFile(ctx context.Context, r WriteFileRequest) (WriteResult, error)
	// EditFile replaces text in a file as one API step; with DryRun it only
	// makes the diff. The file is checked not to have changed in between.
	EditFile(ctx context.Context, r EditFileRequest) (WriteResult, error)
	List(ctx context.Context, r ListRequest) (Listing, error)
	Glob(ctx context.Context, r GlobRequest) (GlobResult, error)
	Grep(ctx context.Context, r GrepRequest) (GrepResult, error)
}

func fileOperations() []Operation {
	return []Operation{
		{STDIO: "fs.list", Traits: Reads | Large | Stops, Call: asks(Files.List)},
		{STDIO: "fs.read", Traits: Reads | Large | Stops, Call: asks(Files.ReadFile)},
	}
}

// ReadFileRequest asks for a part of a file.
type ReadFileRequest struct {
	Directory string `json:"directory,omitempty" jsonschema:"which working directory; the first if left out"`
	Path      string `json:"path"`
	// Limit 0 means the most that is allowed.
	Offset int64 `json:"offset,omitempty" jsonschema:"in bytes"`
	Limit  int64 `json:"limit,omitempty" jsonschema:"in bytes; at most and by default 1 MiB"`
	// MaxBytes is the frontend's own limit; what is beyond it is cut off and
	// Truncated is set. 0 means 1 MiB.
	MaxBytes int64 `json:"-"`
}

// FileContent is (a part of) a file.
type FileContent = files.Content

// WriteFileRequest writes a whole file.
type WriteFileRequest struct {
	Directory string
	Path      string
	Data      []byte
	// Mode is for a new file; 0 means 0666 less the user's umask.
	Mode uint32
	// Parents makes missing directories above it.
	Parents bool
	// Create fails with fs.ErrExist when the file is there.
	Create bool
	Origin Origin
}

// EditFileRequest applies replacements in order.
type EditFileRequest struct {
	Directory string
	Path      string
	Edits     []Edit
	DryRun    bool
	Origin    Origin
}

// Edit replaces Old, which must occur exactly once unless All is set.
type Edit struct {
	Old string `json:"old_text"`
	New string `json:"new_text"`
	All bool   `json:"replace_all,omitempty"`
}

// WriteResult says what a write did.
type WriteResult struct {
	Path         string         `json:"path"`
	Step         undolog.StepID `json:"step_id"` // 0 when nothing changed or on a dry run
	Created      bool           `json:"created"`
	BytesWritten int64          `json:"bytes_written"`
	Replacements int            `json:"replacements,omitempty"`
	Diff         string         `json:"diff,omitempty"` // unified; for EditFile
	DryRun       bool           `json:"dry_run,omitempty"`
}

// ListRequest lists a directory.
type ListRequest struct {
	Directory string `json:"directory,omitempty" jsonschema:"which working directory; the first if left out"`
	Path      string `json:"path,omitempty" jsonschema:"relative to the directory; itself, if left out"`
	Depth     int    `json:"depth,omitempty" jsonschema:"1 (default): its entries only"`
	Limit     int    `json:"limit,omitempty" jsonschema:"at most and by default 10000"`
}

// Listing is in the order of the paths. [DirEntry] is one name.
type (
	Listing  = files.Listing
	DirEntry = files.Entry
)

// GlobRequest finds files by a doublestar pattern ([files.GlobRequest]), newest
// first.
type GlobRequest struct {
	Directory string `json:"directory,omitempty"`
	// Pattern is relative to Path, or absolute. One that ends in "/" finds
	// directories, any other files and symlinks.
	Pattern string `json:"pattern"`
	Path    string `json:"path,omitempty"`  // where to begin
	Limit   int    `json:"limit,omitempty"` // 0: 1,000
	// Ignored includes what .gitignore files exclude; .git is never searched
	// unless the path begins there.
	Ignored bool `json:"include_ignored,omitempty"`
}

// GlobResult holds paths relative to the folder. Those that are not UTF-8 are
// given as Go's %q does here and in all results; requests take them so.
type GlobResult = files.Found

// GrepMode is what a search returns.
type GrepMode = files.Mode

// The modes.
const (
	GrepContent = files.ModeContent
	GrepFiles   = files.ModeFiles
	GrepCount   = files.ModeCount
)

// GrepRequest searches file contents by a regular expression (RE2), line by line
// or, with Multiline, across lines. Binary files are left out and counted.
type GrepRequest struct {
	Directory string `json:"directory,omitempty"`
	Pattern   string `json:"pattern"`
	Path      string `json:"path,omitempty"` // a file or directory; empty: the folder
	// Glob leaves only names that match or, with a "/" in it, paths relative to
	// Path; "!" before it leaves the others.
	Glob       string   `json:"glob,omitempty"`
	Mode       GrepMode `json:"output_mode,omitempty"` // empty: files_with_matches
	IgnoreCase bool     `json:"ignore_case,omitempty"`
	Literal    bool     `json:"literal,omitempty"`
	Multiline  bool     `json:"multiline,omitempty"`
	Before     int      `json:"before,omitempty"` // lines of context, at most 100
	After      int      `json:"after,omitempty"`
	Limit      int      `json:"limit,omitempty"` // matching lines (content) or files; 0: 1,000
	Ignored    bool     `json:"include_ignored,omitempty"`
}

// GrepResult has the field of the mode set. Files are in the order of their
// paths. [GrepMatch] is one line (or context line), [GrepTotal] counts the
// matching lines of a file.
type (
	GrepResult = files.Results
	GrepMatch  = files.Match
	GrepTotal  = files.Total
)
