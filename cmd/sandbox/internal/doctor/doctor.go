package doctor

import (
	"context"

	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
)

// Finding is one thing that was looked at.
type Finding struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, warn (works without), fail (run does not work)
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"`
	// Fix is what root can install to mend it, or nil: there may be nothing, or it is the
	// container's to allow.
	Fix *Fix `json:"fix,omitempty"`
}

// Host is what the configuration says about this machine.
type Host struct {
	Jail    func() (hypervisor.Runtime, error)
	Machine func() (Machine, error)
	// Landlock is what serves where there is no jail; nil: nothing does. Weaker says in which
	// ways it is weaker.
	Landlock func() (hypervisor.Runtime, error)
	Weaker   []string
	// Bridge is how the jail shall reach folders.
	Bridge hypervisor.Bridge
	// Folder is the working folder and where its undo log is or would be.
	Folder func() (folder, undoDir string, err error)
	// Limits are of that log.
	Limits undolog.Limits
	// Place says why that log is there, and which better places it cannot have. It may be nil.
	Place func() (why string, passed []string)
}

// Machine is the runtime of virtual machines. Acceleration is how it runs them,
// and why not faster. KVM says why they cannot run on KVM, as far as that can be told without QEMU.
type Machine interface {
	hypervisor.Runtime
	Acceleration(ctx context.Context) (name string, why, err error)
	KVM() error
}
