package jail

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
)

// listenerByte comes with the listener over the setup socket, where a folder's number
// comes with a /dev/fuse.
const listenerByte = 0xff

// chooseBridge decides how the guest's folders are served.
func (r *Runtime) chooseBridge(g *guest) error {
	folders, err := folders(g.cfg)
	if err != nil {
		return err
	}
	fuse := g.cfg.Dynamic || len(g.cfg.Gates) > 0
	switch g.cfg.Bridge {
	case "", hypervisor.BridgeFUSE:
		fuse = fuse || len(folders) > 0
	case hypervisor.BridgeAuto:
		if g.cfg.Mediate == nil {
			break
		}
		if g.mediation, err = r.mediation(g.user, folders); err != nil {
			g.rather = "the mediated bridge cannot be had: " + hypervisor.Lacking(err)
		}
	case hypervisor.BridgeMediated:
		if g.cfg.Mediate == nil {
			return errors.New("nobody answers the system calls of a mediated bridge here")
		}
		if g.mediation, err = r.mediation(g.user, folders); err != nil {
			return fmt.Errorf("the mediated bridge: %w", hypervisor.Unavailable(err))
		}
	default:
		return fmt.Errorf("there is no bridge %q", g.cfg.Bridge)
	}
	if !fuse {
		return nil
	}
	if err := hostFUSE(); err != nil {
		return errors.Join(fmt.Errorf("opening /dev/fuse: %w", err), g.mediation.close())
	}
	return nil
}

// reconsider takes FUSE where that was left open and the plan shows that a program inside would
// lose something: what is mounted below a folder can be written through FUSE only, and what is
// hidden in it stays hidden there when it is replaced outside.
func (g *guest) reconsider() (again bool) {
	if g.cfg.Bridge != hypervisor.BridgeAuto || g.mediation == nil || g.cfg.InPod() || !slices.Contains(g.plan.bare[:g.plan.folders], false) || hostFUSE() != nil {
		return false
	}
	_ = g.mediation.close()
	g.mediation, g.rather = nil, "something is mounted, or hidden, below "+g.cfg.Shares[slices.Index(g.plan.bare, false)].HostPath
	return true
}

// Mediates returns why a guest with these folders cannot have the mediated bridge, or
// nil. It changes nothing.
func (r *Runtime) Mediates(folders ...string) error {
	u, err := chooseAccount(-1, -1)
	if err != nil {
		return err
	}
	m, err := r.mediation(u, folders)
	if err != nil {
		return hypervisor.Unavailable(err)
	}
	return m.close()
}

// RootOwns returns an error if a folder is not root's: commands that root starts have no capabilities, and could not change it.
func RootOwns(folders []string) error {
	for _, f := range folders {
		var st unix.Stat_t
		if err := unix.Stat(f, &st); err != nil {
			return &os.PathError{Op: "stat", Path: f, Err: err}
		}
		if st.Uid != 0 {
			return fmt.Errorf("%s belongs to user %d, and sandbox was started as root: start it as that user: %w", f, st.Uid, hypervisor.ErrUnavailable)
		}
	}
	return nil
}

// mediation is what the supervisor adds to the view of a mediated guest.
type mediation struct {
	idmap *os.File // a user namespace whose map is that of the folders' mounts; nil: as on the host
}

// mayServe returns which right root lacks to answer the calls of another user: in a
// container, root may have few.
func mayServe() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&hdr, &has[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	for name, right := range map[string]uint32{"SYS_PTRACE": 1 << unix.CAP_SYS_PTRACE, "DAC_OVERRIDE": 1 << unix.CAP_DAC_OVERRIDE} {
		if has[0].Effective&right == 0 {
			return fmt.Errorf("root has no CAP_%s here: add it to the container (--cap-add %s), or run sandbox as another user", name, name)
		}
	}
	return nil
}

// mediation returns what the mediated bridge needs for a workload and its folders, or why it
// cannot be had.
func (r *Runtime) mediation(u account, folders []string) (*mediation, error) {
	if err := errors.Join(landlocks(r.landlock()), r.ahead.Mediates()); err != nil {
		return nil, err
	}
	if !u.ByRoot {
		return &mediation{}, nil
	}
	if err := mayServe(); err != nil {
		return nil, err
	}
	if err := RootOwns(folders); err != nil {
		return nil, err
	}
	idmap, err := r.ahead.Swapped(u.UID, u.GID)
	if err != nil {
		return nil, err
	}
	m := &mediation{idmap: idmap}
	for _, f := range folders {
		tree, err := m.clone(f, sealed)
		if err != nil {
			return nil, errors.Join(err, m.close())
		}
		_ = unix.Close(tree)
	}
	return m, nil
}

func (m *mediation) close() error {
	if m == nil || m.idmap == nil {
		return nil
	}
	return m.idmap.Close()
}

// clone makes a detached mount of a folder in which the folder's owner, root, is the
// workload.
func (m *mediation) clone(folder string, attrs uint64) (fd int, err error) {
	return cloneMapped(m.idmap, folder, attrs, unix.AT_RECURSIVE)
}

// cloneMapped makes a detached mount of a directory with the ids of a user namespace.
func cloneMapped(idmap *os.File, folder string, attrs uint64, recursive uint) (fd int, err error) {
	fd, err = unix.OpenTree(unix.AT_FDCWD, folder, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|recursive)
	if err != nil {
		return -1, fmt.Errorf("a mount of %s: %w", folder, err)
	}
	// Private: what the jail mounts on it must not reach the host.
	attr := unix.MountAttr{Attr_set: attrs, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|recursive, &attr); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("the attributes of a mount of %s: %w", folder, err)
	}
	// What is mounted below keeps its ids: the bridge does not serve it.
	attr = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(idmap.Fd())}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("a mount of %s with mapped ids (its file system may not support that): %w", folder, err)
	}
	return fd, nil
}

// sendFolders sends PID 1 the mounts that it cannot make itself, in the order of the
// plan.
func (g *guest) sendFolders() error {
	for i := range g.plan.mounts {
		m := &g.plan.mounts[i]
		switch {
		case m.op == opOverlay && m.mapped:
			if err := g.sendLower(m); err != nil {
				return err
			}
		case m.op == opFolder && g.plan.mapped:
			fd, err := g.mediation.clone(m.path, sealed)
			if err == nil {
				err = g.sendMount(fd, m.path)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// sendMount sends a detached mount, which it closes.
func (g *guest) sendMount(fd int, path string) error {
	f := os.NewFile(uintptr(fd), path)
	return errors.Join(g.setup.WriteFDs([]byte{0}, []*os.File{f}), f.Close())
}

// mediate gives the folders, as the guest sees them, to their bridges, and then the
// listener to who answers on it.
func (g *guest) mediate(listener *os.File) error {
	m := hypervisor.Mediation{Listener: listener, UID: uint32(g.user.UID), GID: uint32(g.user.GID), Ways: g.ways, Overlays: g.plan.overlays(), Shared: g.sharing != filters.NotShared, Datagrams: g.sharing == filters.SharedDatagrams}
	var err error
	if m.Root, err = g.openRoot(); err != nil {
		return errors.Join(err, listener.Close())
	}
	folders, err := folders(g.cfg)
	for i := 0; err == nil && i < len(folders); i++ {
		err = g.serveView(i, m.Root, folders[i])
	}
	if err != nil {
		return errors.Join(err, listener.Close(), m.Root.Close())
	}
	g.ways = nil // they are given away
	if err := g.cfg.Mediate(m); err != nil {
		return fmt.Errorf("answering system calls: %w", err)
	}
	return nil
}

// openRoot opens the root directory of everything inside.
func (g *guest) openRoot() (root *os.File, err error) {
	err = g.pid1.While(func() (err error) {
		root, err = filters.OpenUntraced(fmt.Sprintf("/proc/%d/root", g.pid1.PID), unix.O_PATH|unix.O_DIRECTORY)
		return err
	})
	return root, err
}

// serveView gives folder i below root to its bridge.
func (g *guest) serveView(i int, root *os.File, folder string) error {
	s := g.cfg.Shares[i]
	fd, err := g.wayTo(folder)
	if err == nil && fd < 0 {
		fd, err = unix.Openat2(int(root.Fd()), strings.TrimPrefix(folder, "/"), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
	}
	if err != nil {
		return fmt.Errorf("opening the view of %s: %w", folder, err)
	}
	t := hypervisor.Transport{
		Kind: hypervisor.TransportMediated, File: os.NewFile(uintptr(fd), folder),
		UID: uint32(g.user.UID), GID: uint32(g.user.GID), Hide: g.refuse[i], Bare: g.plan.bare[i],
	}
	if g.plan.mapped && !s.ReadOnly {
		grants, err := g.mediation.clone(folder, sealed&^unix.MOUNT_ATTR_RDONLY)
		if err != nil {
			return errors.Join(err, t.File.Close())
		}
		t.Grants = os.NewFile(uintptr(grants), folder)
	}
	if err := s.Serve(t); err != nil {
		return fmt.Errorf("serving %s: %w", s.HostPath, err)
	}
	return nil
}
