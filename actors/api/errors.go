package api

import (
	"errors"

	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Errors of a session's settings and folders.
var (
	// ErrDirectory is wrapped by every error about a folder that cannot be a
	// working folder.
	ErrDirectory = errors.New("unusable working directory")
	// ErrSetting is wrapped by errors about settings that make no sense.
	ErrSetting = errors.New("invalid setting")
	// ErrNotGiven is wrapped by errors about what a running session does not have and
	// a command asks it to have.
	ErrNotGiven = errors.New("the running session does not have that")
)

// Errors of Files, beside io/fs's (fs.ErrNotExist ...) and
// messages.ErrNoDirectory, ErrReadOnlyDirectory, ErrDenied, ErrBusy.
var (
	// ErrOutside: the path leads out of the working folder.
	ErrOutside = files.ErrOutside
	// ErrTooLarge: the content is above the limit.
	ErrTooLarge = files.ErrTooLarge
	// ErrEdit: the text to replace is not there, or is ambiguous.
	ErrEdit = files.ErrEdit
	// ErrConflict: somebody else changed the file at the same time.
	ErrConflict = files.ErrConflict
	// ErrNotRegular: the path is not a regular file.
	ErrNotRegular = files.ErrNotRegular
	// ErrPattern: the pattern of a search cannot be used; the text says why.
	ErrPattern = files.ErrPattern
)

// WarnWatch: edits from outside may not be announced; an undo still finds them.
const WarnWatch undolog.WarningCode = "external_modification_unwatched"

// WarnMoved: the folder was moved, and its history has come along.
const WarnMoved undolog.WarningCode = "folder_moved"
