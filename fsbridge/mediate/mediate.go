package mediate

import (
	"errors"
	"log/slog"
	"os"
)

// Options of a [Server].
type Options struct {
	// Logger may be nil.
	Logger *slog.Logger
	// Outside tells whether a process outside is one that the guest shall know to be there, by its number there. It may be nil: there is none.
	Outside func(pid int) bool
}

// Guest is whose calls a [Server] answers. The files are taken over.
type Guest struct {
	// Listener is the seccomp user notification descriptor.
	Listener *os.File
	// Root is the root directory of every process inside, O_PATH.
	Root *os.File
	// UID and GID are the host-side ids of the workload.
	UID, GID uint32
	// Unmounted says that the folders are no mounts of their own in the guest's view: what
	// keeps the workload from changing them, and all the rest, is Landlock.
	Unmounted bool
	// Own is, with Unmounted, the one directory in which the workload may change
	// everything, free of symlinks.
	Own string
	// Ways are directories inside, O_PATH, to which the way leads through file systems that let only the workload through. Their
	// names are their paths inside, free of symlinks; nobody inside can change what those lead to.
	Ways []*os.File
	// Overlays are paths inside of overlays, free of symlinks, whose lower layers the kernel does not rename directories of. The workload
	// may change everything in them. None lies over what holds anybody up until a person has decided.
	Overlays []string
	// Network decides about the guest's connections; nil: it has a network namespace of its own, or no sockets.
	Network Network
	// Listening decides where the guest's programs listen; nil: nobody does, each listens where it wants.
	Listening Listening
	// Datagrams says that the filter sends each datagram that can name where it goes: Network decides about those, too.
	Datagrams bool
}

// Close closes the guest's files.
func (g *Guest) Close() error {
	errs := []error{g.Listener.Close(), g.Root.Close()}
	for _, w := range g.Ways {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}
