package jail

import (
	"log/slog"

	"github.com/codeagent/sandbox/hypervisor/network"
)

// AnonymousUID is the uid and gid of the workload when sandbox was started by
// root himself.
const AnonymousUID = AnonymousAccount

// Options of a [Runtime].
type Options struct {
	// GuestBinary returns the program sandbox-guest. Nil: the running program
	// contains it, calls inner.Main first thing if inner.Invoked, and is started
	// again from /proc/self/exe.
	GuestBinary func() ([]byte, error)
	// Ahead has begun to make what guests need, from the same GuestBinary. Nil: nothing is begun.
	Ahead *Preparation
	// Umask is what commands start with; this process's own may be another.
	Umask int
	// Network is how a guest's network is made, where the configuration's Network
	// allows one. Policy, GuestMAC and Log are not looked at.
	Network network.Options
	// Landlock returns the version of Landlock that guests may use, or 0. Nil: the kernel's.
	Landlock func() int
	// Logger may be nil.
	Logger *slog.Logger
}
