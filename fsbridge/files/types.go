package files

import (
	"errors"
	"strconv"
	"time"
	"unicode/utf8"
)

// Errors, beside io/fs's (fs.ErrNotExist ...), which wrap system calls' errors.
// What is hidden gives fs.ErrPermission.
var (
	// ErrNotRegular: the path is a directory, a FIFO, a device or the like.
	ErrNotRegular = errors.New("not a regular file")
	// ErrPattern is wrapped by errors about a pattern that cannot be used.
	ErrPattern = errors.New("unusable pattern")
	// ErrRequest is wrapped by errors about a number that makes no sense.
	ErrRequest = errors.New("invalid request")
	// ErrClosed: the folder is not open any more.
	ErrClosed = errors.New("the working folder is closed")
)

// Defaults and bounds.
const (
	DefaultReadBytes = 1 << 20
	DefaultList      = 10_000
	DefaultFound     = 1_000   // paths of Glob, matches or files of Grep
	MaxLimit         = 100_000 // larger limits are taken as this
	MaxContext       = 100     // lines before and after a match
	MaxText          = 2 << 10 // bytes of a line in a [Match]
)

// ReadRequest asks for a part of a file.
type ReadRequest struct {
	Path string
	// Offset and Limit are in bytes; Limit 0 means as much as MaxBytes allows.
	Offset, Limit int64
	// MaxBytes bounds what is read; [DefaultReadBytes] if 0.
	MaxBytes int64
}

// Content is (a part of) a file.
type Content struct {
	Path      string    `json:"path"` // relative to the folder
	Data      []byte    `json:"-"`
	Size      int64     `json:"size"`
	Offset    int64     `json:"offset"`
	Truncated bool      `json:"truncated,omitempty"` // more follows
	Mode      uint32    `json:"mode"`                // permission bits
	ModTime   time.Time `json:"modified_at"`
}

// ListRequest lists a directory.
type ListRequest struct {
	Path  string // empty: the folder itself
	Depth int    // 0 and 1: its entries only
	Limit int    // [DefaultList] if 0
}

// Listing is in the order of the entries' paths, names compared byte by byte: a
// directory is followed by what is in it.
type Listing struct {
	Path      string  `json:"path"`
	Entries   []Entry `json:"entries"`
	Truncated bool    `json:"truncated,omitempty"`
}

// Entry is one name. Names that are not UTF-8 are given as Go's %q does, with
// Escaped set.
type Entry struct {
	Path    string    `json:"path"` // relative to the folder
	Type    string    `json:"type"` // "file", "directory", "symlink", "other"
	Size    int64     `json:"size"`
	Mode    uint32    `json:"mode"`
	ModTime time.Time `json:"modified_at"`
	Target  string    `json:"target,omitempty"` // of a symlink
	Escaped bool      `json:"escaped,omitempty"`
}

// Escape returns a path as it is where that is UTF-8, else as Go's %q does:
// JSON could not carry it. [Folder] takes both.
func Escape(path string) (shown string, escaped bool) {
	if utf8.ValidString(path) {
		return path, false
	}
	return strconv.Quote(path), true
}

// unescape is the inverse of Escape. A path that Escape would have left alone is
// never taken for an escaped one.
func unescape(path string) string {
	if len(path) > 2 && path[0] == '"' {
		if p, err := strconv.Unquote(path); err == nil && !utf8.ValidString(p) {
			return p
		}
	}
	return path
}

// GlobRequest finds files by a pattern: doublestar's, in which "**" stands for
// any directories, "*" and "?" for anything in one name, "[a-z]" for one of some
// characters and "{a,b}" for one of some texts.
type GlobRequest struct {
	// Pattern is relative to Path, or absolute. One that ends in "/" finds
	// directories, any other finds what is none.
	Pattern string
	Path    string // where to begin; empty: the folder
	Limit   int    // [DefaultFound] if 0
	// Ignored includes what .gitignore files exclude. What is in .git is found
	// only if Path or the pattern begins there, and what is ignored, then, too.
	Ignored bool
}

// Found holds paths relative to the folder, newest first.
type Found struct {
	Paths     []string `json:"paths"` // escaped where they are not UTF-8
	Truncated bool     `json:"truncated,omitempty"`
	// Unreadable counts directories that could not be looked into.
	Unreadable int `json:"unreadable,omitempty"`
}

// Mode is what a search returns.
type Mode string

// The modes.
const (
	ModeContent Mode = "content"
	ModeFiles   Mode = "files_with_matches"
	ModeCount   Mode = "count"
)

// GrepRequest searches the contents of files.
type GrepRequest struct {
	Pattern string // RE2's syntax; ^ and $ are the ends of lines
	Path    string // a file or directory; empty: the folder
	// Glob leaves only the paths that match: names, if there is no "/" in it,
	// else paths relative to Path. With "!" before it, it leaves the others.
	Glob       string
	Mode       Mode // ModeFiles if empty
	IgnoreCase bool
	Literal    bool // Pattern is a text
	Multiline  bool // a match may have several lines; no file above 16 MiB
	Before     int  // lines of context; at most MaxContext
	After      int
	Limit      int // lines that match (ModeContent) or files; [DefaultFound] if 0
	Ignored    bool
}

// Results holds what the mode asks for, in the order of the paths.
type Results struct {
	Matches   []Match  `json:"matches,omitempty"`
	Files     []string `json:"files,omitempty"`
	Counts    []Total  `json:"counts,omitempty"`
	Truncated bool     `json:"truncated,omitempty"`
	// Binary counts files that were left out because of a NUL byte in their
	// first 8 KiB, Unreadable files and directories that could not be read, and
	// TooLarge files that are above the limit of a multiline search.
	Binary     int `json:"binary_files,omitempty"`
	Unreadable int `json:"unreadable,omitempty"`
	TooLarge   int `json:"too_large_files,omitempty"`
}

// Total counts the lines of a file that match.
type Total struct {
	Path  string `json:"path"`
	Count int    `json:"count"`
}
