package actors

import "github.com/codeagent/sandbox/actors/api"

// The names of package api, for callers that have not changed to it yet.
//
//revive:disable:exported
type (
	Config           = api.Config
	Directory        = api.Directory
	Safeguards       = api.Safeguards
	Network          = api.Network
	Timing           = api.Timing
	Clock            = api.Clock
	EventType        = api.EventType
	Event            = api.Event
	Files            = api.Files
	ReadFileRequest  = api.ReadFileRequest
	FileContent      = api.FileContent
	WriteFileRequest = api.WriteFileRequest
	EditFileRequest  = api.EditFileRequest
	Edit             = api.Edit
	WriteResult      = api.WriteResult
	ListRequest      = api.ListRequest
	GlobRequest      = api.GlobRequest
	GlobResult       = api.GlobResult
	GrepMode         = api.GrepMode
	GrepRequest      = api.GrepRequest
	Listing          = api.Listing
	DirEntry         = api.DirEntry
	GrepResult       = api.GrepResult
	GrepMatch        = api.GrepMatch
	GrepTotal        = api.GrepTotal
	Live             = api.Live
	Manager          = api.Manager
	Notifier         = api.Notifier
	Origin           = api.Origin
	RunRequest       = api.RunRequest
	RunResult        = api.RunResult
	RunEntry         = api.RunEntry
	Runner           = api.Runner
	Service          = api.Service
	HistoryRequest   = api.HistoryRequest
	StepRequest      = api.StepRequest
	UndoRequest      = api.UndoRequest
	UndoResult       = api.UndoResult
	RestoreRequest   = api.RestoreRequest
	GCRequest        = api.GCRequest
	Status           = api.Status
	DirectoryStatus  = api.DirectoryStatus
	BridgeStatus     = api.BridgeStatus
	Pending          = api.Pending
	DecideRequest    = api.DecideRequest
	Tree             = api.Tree
	TreeNode         = api.TreeNode
	SessionInfo      = api.SessionInfo
)

const (
	WarnWatch                 = api.WarnWatch
	EventStepStarted          = api.EventStepStarted
	EventStepCompleted        = api.EventStepCompleted
	EventSafeguardTriggered   = api.EventSafeguardTriggered
	EventSafeguardDecided     = api.EventSafeguardDecided
	EventExternalModification = api.EventExternalModification
	EventRecovery             = api.EventRecovery
	EventVersionMismatch      = api.EventVersionMismatch
	EventWarning              = api.EventWarning
	EventError                = api.EventError
	EventSessionState         = api.EventSessionState
	EventNetwork              = api.EventNetwork
	GrepContent               = api.GrepContent
	GrepFiles                 = api.GrepFiles
	GrepCount                 = api.GrepCount
)

var (
	ErrDirectory  = api.ErrDirectory
	ErrSetting    = api.ErrSetting
	ErrOutside    = api.ErrOutside
	ErrTooLarge   = api.ErrTooLarge
	ErrEdit       = api.ErrEdit
	ErrConflict   = api.ErrConflict
	ErrNotRegular = api.ErrNotRegular
	ErrPattern    = api.ErrPattern
)
