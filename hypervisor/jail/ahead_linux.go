package jail

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// Preparation is what jails of this process need. It is safe for concurrent use.
type Preparation struct {
	program  func() (*os.File, error)
	mediates func() error
	swap     func() (swap, error)
	begun    sync.Once
}

// swap is a user namespace in which root and a workload change places.
type swap struct {
	uid, gid int
	ns       *os.File // nil: there is none
}

// NewPreparation makes nothing yet. Guest returns the program sandbox-guest; nil stands for the running program.
func NewPreparation(guest func() ([]byte, error)) *Preparation {
	return &Preparation{
		program: sync.OnceValues(func() (*os.File, error) {
			if guest == nil {
				return nil, nil
			}
			return control.SealedProgram(guest)
		}),
		mediates: sync.OnceValue(kernelMediates),
		swap:     sync.OnceValues(usual),
	}
}

// usual makes the namespace for the workload that there is if nobody asks for another.
func usual() (swap, error) {
	u, err := chooseAccount(-1, -1)
	if err != nil || !u.ByRoot {
		return swap{}, err
	}
	ns, err := swapped(u.UID, u.GID)
	return swap{u.UID, u.GID, ns}, err
}

// Begin makes everything, in goroutines of its own, and returns at once. Later calls do nothing.
func (p *Preparation) Begin() {
	p.begun.Do(func() {
		go func() { _ = p.Mediates(); _, _ = p.swap() }() // who needs them hears why it failed
		go func() { _, _ = p.Program() }()
	})
}

// Program returns a sealed memfd with sandbox-guest, or nil for the running program. It stays p's.
func (p *Preparation) Program() (*os.File, error) { return p.program() }

// kernelMediates returns what [kernelMediates] does.
func (p *Preparation) Mediates() error { return p.mediates() }

// Swapped returns a user namespace in which root and the workload change places, for the folders' mounts. The caller
// closes it.
func (p *Preparation) Swapped(uid, gid int) (*os.File, error) {
	s, err := p.swap()
	if err != nil || s.ns == nil || s.uid != uid || s.gid != gid {
		return swapped(uid, gid)
	}
	fd, err := unix.FcntlInt(s.ns.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	return os.NewFile(uintptr(fd), s.ns.Name()), nil
}

// kernelMediates returns why this kernel cannot have a mediated bridge, as far as that is about system calls, or nil. It tries that, which
// takes a millisecond, or more on kernels before Linux 6.18.
func kernelMediates() error { return mediates(kernelAtLeast(6, 18)) }
