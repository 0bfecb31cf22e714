package places

import (
	"errors"
	"io/fs"
	"time"
)

// Store is the directory with a user's overlays. It need not exist.
type Store struct{ Dir string }

// ErrInUse is returned (wrapped) for an overlay that a session has.
var ErrInUse = errors.New("a session has it")

// Place is a directory of the host over which an overlay lies.
type Place struct {
	// Path is where it is, inside and on the host, absolute and free of symlinks.
	Path string `json:"path"`
	// Session: what is written goes with the session.
	Session bool `json:"session,omitempty"`
	// Hidden are paths below Path that stay hidden, whatever the layers hold.
	Hidden []string `json:"hidden,omitempty"`
}

// Owner is whom the layers of a place belong to, and what the owner of the host's directory
// becomes where that is another.
type Owner struct {
	UID, GID int
	// Mapped: what belongs to root in the lower layer belongs to this owner inside.
	Mapped bool
}

// Entry is one overlay that is kept.
type Entry struct {
	Place
	// UID is whose commands have written it, and Slot in which slot it lies.
	UID  int `json:"uid"`
	Slot int `json:"slot"`
	// PID is the first process of the jail that has it, or 0.
	PID int `json:"pid,omitempty"`
	// Files and Bytes are what was written.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`

	dir string // of the entry
}

// Kind says what became of a path.
type Kind string

// The kinds of a [Change].
const (
	Added    Kind = "added"
	Modified Kind = "modified" // or its metadata alone
	Deleted  Kind = "deleted"
	Replaced Kind = "replaced" // a directory by a new one, or by something else
)

// Change is one path in which an overlay differs from the host's directory.
type Change struct {
	Path    string      `json:"path"` // absolute, as the host has it
	Kind    Kind        `json:"kind"`
	Mode    fs.FileMode `json:"mode,omitempty"`
	Bytes   int64       `json:"bytes,omitempty"`
	ModTime time.Time   `json:"modified_at,omitzero"`

	rel string
}

// Applied says what [Entry.Apply] has done.
type Applied struct {
	Changes int `json:"changes"`
	// Skipped are paths that were not put into the host's directory, each with the reason; they are
	// gone with the overlay.
	Skipped []string `json:"skipped,omitempty"`
}
