package files

import (
	"errors"

	"github.com/codeagent/sandbox/fsbridge"
)

// Errors of writes, beside [ErrOutside], [ErrNotRegular], those of the
// Interceptor and io/fs's.
var (
	// ErrTooLarge: the file is larger than can be edited.
	ErrTooLarge = errors.New("too large")
	// ErrEdit: the text to replace is not there, or is ambiguous.
	ErrEdit = errors.New("cannot apply the edit")
	// ErrConflict: somebody else changed the file at the same time.
	ErrConflict = errors.New("changed by somebody else at the same time; read it again")
)

// MaxEditBytes is the size up to which a file can be edited.
const MaxEditBytes = 16 << 20

// Writer writes files of a [Folder]. Its methods may be called concurrently.
type Writer struct {
	Folder *Folder
	// Hooks is asked before every mutation.
	Hooks fsbridge.Interceptor
	// Umask is taken from the modes of what is made.
	Umask uint32
}

// WriteOptions say what [Writer.Write] shall do.
type WriteOptions struct {
	Data []byte
	// Mode is for a new file; 0 means 0666. The umask is taken from it either
	// way, and setuid, setgid and sticky bits are dropped.
	Mode uint32
	// Parents makes missing directories above the file.
	Parents bool
	// Create fails with fs.ErrExist when something is there.
	Create bool
	// Admit, if not nil, is called once, after everything was looked at that can
	// be refused without touching anything and if something has to change; then
	// it is all looked at again. Its error ends the write.
	Admit func() error
}

// WriteResult says what a write did.
type WriteResult struct {
	Path    string // relative to the folder, behind symlinks
	Created bool
	// Changed is false when everything was as it should be already.
	Changed      bool
	Bytes        int64 // of the file now
	Replacements int
	Diff         string // unified; of an edit
	// Touched are the paths whose entries or contents changed, for caches:
	// also those of a write that failed.
	Touched []string
}
