package directory

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/mediate"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/hypervisor"
)

// Mediation answers the system calls of a session's guest, if its folders are
// mediated: there is one server for each start of a guest, for all of its folders.
// Methods are safe for concurrent use.
type Mediation struct {
	log     *slog.Logger
	outside func(pid int) bool
	network mediate.Network // decides for guests that share our network namespace; nil: there is none
	listens mediate.Listening

	mu     sync.Mutex
	server *mediate.Server // nil until the first folder of a start, and after End
}

// NewMediation makes one that answers nobody. outside is [mediate.Options]'s.
func NewMediation(log *slog.Logger, outside func(pid int) bool) *Mediation {
	return &Mediation{log: log.With("component", "fs_backend"), outside: outside}
}

// Decide has somebody decide about the connections of guests that are in this program's network namespace. It is called before the first guest.
func (m *Mediation) Decide(n mediate.Network) { m.network = n }

// Listen has somebody decide where programs inside listen. It is called before the first guest.
func (m *Mediation) Listen(l mediate.Listening) { m.listens = l }

// Listens is [hypervisor.Config.Listens].
func (m *Mediation) Listens(port uint16) (at netip.AddrPort, ok bool) {
	m.mu.Lock()
	s := m.server
	m.mu.Unlock()
	if s == nil {
		return at, false
	}
	return s.Listens(port)
}

// add makes the bridge of a folder. It takes the files over, also on error.
func (m *Mediation) add(t hypervisor.Transport, o vfs.Options) (fsbridge.Bridge, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server == nil {
		m.server = mediate.New(mediate.Options{Logger: m.log, Outside: m.outside})
	}
	b, err := m.server.Add(t.File, t.Grants, o)
	if err != nil {
		return nil, err
	}
	if t.Bare && len(t.Hide) == 0 {
		b.Bare()
	}
	return b, nil
}

// Serve begins to answer for the folders that were added: see
// [hypervisor.Config.Mediate].
func (m *Mediation) Serve(g hypervisor.Mediation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server == nil {
		m.server = mediate.New(mediate.Options{Logger: m.log, Outside: m.outside}) // a guest without folders
	}
	to := mediate.Guest{
		Listener: g.Listener, Root: g.Root, UID: g.UID, GID: g.GID, Unmounted: g.Unmounted, Own: g.Own, Ways: g.Ways, Overlays: g.Overlays, Listening: m.listens,
	}
	if g.Shared {
		if m.network == nil {
			return errors.Join(errors.New("nobody decides about this guest's connections"), to.Close())
		}
		to.Network, to.Datagrams = m.network, g.Datagrams
	}
	return m.server.Serve(to)
}

// Refused is how often the guest has tried to trace a process, to have a socket of a network, a filter with a listener, and a call of a program of 32 bits, and may not.
func (m *Mediation) Refused() (traced, unwired, listening, foreign uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server == nil {
		return 0, 0, 0, 0
	}
	f := m.server.Figures()
	return f.Traced, f.Unwired, f.Listening, f.Foreign
}

// End ends the service for a guest that has ended, or has not started. It returns when
// nothing of the folders is used any more, or ctx ends.
func (m *Mediation) End(ctx context.Context) error {
	m.mu.Lock()
	s := m.server
	m.server = nil
	m.mu.Unlock()
	if s == nil {
		return nil
	}
	err := s.Close()
	select {
	case <-s.Done():
		return err
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
}
