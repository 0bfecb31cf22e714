package control

// The first messages of a jail, before its control channel: the supervisor
// sends a [Plan] to the builder, the builder answers with reports, one JSON
// object a line in both directions (see guest/inner).

// GuestProgram is argv[0], and StageBuild argv[1], with which the supervisor
// starts a jail's first process. A program that contains guest/inner recognises itself
// by them.
const (
	GuestProgram = "sandbox-guest"
	StageBuild   = "build"
)

// Descriptors that the builder starts with, after stderr: the control channel,
// the socket for the plan, and the program itself if it has no other name.
const (
	FDControl = 3
	FDSetup   = 4
	FDProgram = 5
)

// Plan is what the builder has to do, worked out by the supervisor. The builder
// decides nothing: it carries out Mounts in their order.
type Plan struct {
	Hostname string   `json:"hostname"`
	UID      int      `json:"uid"`
	GID      int      `json:"gid"`
	Umask    int      `json:"umask"`
	Debug    bool     `json:"debug,omitempty"` // allow ptrace
	Shares   int      `json:"shares"`
	Mounts   []Mount  `json:"mounts"`
	Env      []Text   `json:"env"` // of commands that bring none
	Warnings []string `json:"warnings,omitempty"`
}

// MountOp says what a [Mount] does.
type MountOp string

// The operations. Directories on the way that are missing are made (mode 0755);
// they can be missing only below a tmpfs.
const (
	OpTmpfs    MountOp = "tmpfs"     // an empty directory of its own: Mode, owned by the workload if Own
	OpDir      MountOp = "dir"       // a directory below a tmpfs: Mode, Own
	OpSymlink  MountOp = "symlink"   // below a tmpfs, to Source
	OpShare    MountOp = "share"     // the bridge's file system, number Share
	OpBind     MountOp = "bind"      // Source as it was before anything was mounted, read-only
	OpHideDir  MountOp = "hide_dir"  // nothing, not even to list
	OpHideFile MountOp = "hide_file" // the same for a file
	OpFile     MountOp = "file"      // a read-only file with Content over an existing one
	OpDev      MountOp = "dev"       // the minimal /dev
)

// Mount is one step of a [Plan].
type Mount struct {
	Op       MountOp `json:"op"`
	Path     Text    `json:"path"`
	Source   Text    `json:"source,omitempty"`
	Content  Text    `json:"content,omitempty"`
	Mode     uint32  `json:"mode,omitempty"`
	Own      bool    `json:"own,omitempty"`
	Share    int     `json:"share,omitempty"`
	ReadOnly bool    `json:"read_only,omitempty"`
	// Served says that Path lies below a share: wait until it is served.
	Served bool `json:"served,omitempty"`
}

// Report is what the builder says. A /dev/fuse descriptor comes with each
// Share report; Ready comes last, then hello on the control channel.
type Report struct {
	Share *int   `json:"share,omitempty"`
	Ready bool   `json:"ready,omitempty"`
	Error string `json:"error,omitempty"`
}

// ServedMessage is what the supervisor answers to a Share report.
type ServedMessage struct {
	Served int `json:"served"`
}
