package jail

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/messages/lexical"
)

// bound is a socket that a program outside has bound to a path.
type bound struct {
	name string // by which it was bound: it may be relative, and the socket may have been renamed or linked since
	ino  uint32 // of its file, of which the kernel tells 32 bits; 0: not known
	dev  string // of its file system, as in mountinfo
}

// hostSockets returns where the sockets lie that programs outside have bound to a path: a
// read-only mount keeps nobody from connecting. They are found by their inodes: a socket may have been bound by a
// relative path, renamed, or linked to another name. In a working folder a socket
// behind a FUSE bridge leads nowhere, and the temporary places are replaced as a whole.
func (p *planner) hostSockets() []string {
	var out []string
	s := socketSearch{wanted: make(map[uint32]bool), whole: make(map[uint32]bool), seen: make(map[string][]string)}
	for _, b := range boundSockets() {
		if filepath.IsAbs(b.name) {
			path := filepath.Clean(b.name)
			if p.unreached(path) {
				continue
			}
			out = append(out, path)
			var st unix.Stat_t
			if b.ino == 0 || unix.Lstat(path, &st) == nil && uint32(st.Ino) == b.ino && st.Nlink == 1 {
				continue
			}
		}
		s.want(b)
	}
	if len(s.names) == 0 {
		return out
	}
	s.look(p)
	return append(out, slices.DeleteFunc(s.found, p.unreached)...)
}

// unreached tells whether nobody inside reaches the socket at a path, whatever covers it.
func (p *planner) unreached(path string) bool {
	named := slices.ContainsFunc(slices.Concat(p.cfg.Places.Overlay, p.cfg.Places.Writable), func(dir string) bool { return lexical.Within(path, places.ResolveMount(dir)) })
	if !named && (lexical.Within(path, "/run") || lexical.Within(path, "/var/run") || lexical.Within(path, "/tmp")) {
		return true
	}
	return !p.mediated && p.inFolder(places.ResolveMount(path))
}

// socketSearch looks for sockets whose names are not, or no longer, those by which they were bound.
type socketSearch struct {
	wanted  map[uint32]bool // inodes
	whole   map[uint32]bool // those that were found, and have no further name
	devices []string        // of their file systems
	names   []string        // by which they were bound
	found   []string
	seen    map[string][]string // the directories in those that were searched
	listed  int                 // names
}

// mostSearched bounds the directories that are searched, as mostNames bounds the names in them: that takes some milliseconds of each start, and only while such a socket is bound. A socket that was
// removed is still bound, and is looked for until the end.
const mostSearched = 1000

func (s *socketSearch) want(b bound) {
	if b.ino != 0 {
		s.wanted[b.ino] = true
		s.devices = append(s.devices, b.dev)
	}
	s.names = append(s.names, b.name)
}

// look searches where such sockets are likely: beside the names by which they were bound, where processes outside work, in the
// folders, and below the home directory.
func (s *socketSearch) look(p *planner) {
	working := workingDirectories()
	for _, name := range s.names {
		if filepath.IsAbs(name) {
			s.directory(filepath.Dir(name))
			continue
		}
		for _, dir := range working {
			s.directory(filepath.Join(dir, filepath.Dir(name)))
		}
	}
	if len(s.wanted) == len(s.names) && !s.open() { // each has an inode of its own, and no other name
		return
	}
	queue := slices.DeleteFunc(p.socketRoots(), func(dir string) bool {
		return dir == "/" || p.unreached(dir) || !slices.Contains(s.devices, places.MountDevice(p.mounts, dir))
	})
	queued := make(map[string]bool)
	for searched := 0; len(queue) > 0 && searched < mostSearched && s.listed < mostNames; searched++ {
		dir := queue[0]
		if queue = queue[1:]; !queued[dir] {
			queued[dir] = true
			queue = append(queue, s.directory(dir)...)
		}
	}
}

// socketRoots are where sockets are looked for with all that is below: the folders, what is beside them, the home directory, and what is shown or written as the host has it. Where an overlay
// lies over the home directory, a socket in it leads nowhere (the kernel connects to the overlay's inode, to which nothing is bound), so only what is shown as the host has it counts.
func (p *planner) socketRoots() (roots []string) {
	layered := p.cfg.Places.Home && p.canLayerHome() && p.mountedIn(p.user.Home) == ""
	add := func(dir string) {
		if dir != p.user.Home || !layered {
			roots = append(roots, dir)
			return
		}
		roots = append(roots, plainDirectories(dir)...)
	}
	for _, share := range p.shares {
		add(share)
		add(filepath.Dir(share))
	}
	add(p.user.Home)
	for _, dir := range slices.Concat(p.cfg.Places.Writable, p.show) {
		add(places.ResolveMount(dir))
	}
	return roots
}

// open tells whether one of the inodes that are looked for was not found, or has a further name.
func (s *socketSearch) open() bool {
	for ino := range s.wanted {
		if !s.whole[ino] {
			return true
		}
	}
	return false
}

// directory notes the sockets in a directory, among its first names, and returns the directories in it.
func (s *socketSearch) directory(dir string) (below []string) {
	if below, ok := s.seen[dir]; ok {
		return below
	}
	defer func() { s.seen[dir] = below }()
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	list, _ := f.ReadDir(mostNames) // what there is of it
	s.listed += len(list)
	for _, e := range list {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			below = append(below, path)
		case e.Type() == os.ModeSocket && s.is(path):
			s.found = append(s.found, path)
		}
	}
	return below
}

// is tells whether the socket at a path is one that is looked for. Who has an inode number twice covers one socket more.
func (s *socketSearch) is(path string) bool {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return false
	}
	wanted := s.wanted[uint32(st.Ino)]
	if wanted && st.Nlink == 1 {
		s.whole[uint32(st.Ino)] = true
	}
	return wanted
}

// workingDirectories are those of the processes that we may look at. A pattern for their links would have each process's directory read.
func workingDirectories() []string {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	seen := make(map[string]bool)
	var out []string
	for _, e := range processes {
		if c := e.Name()[0]; c < '0' || c > '9' {
			continue
		}
		if dir, err := os.Readlink("/proc/" + e.Name() + "/cwd"); err == nil && filepath.IsAbs(dir) && !seen[dir] {
			seen[dir] = true
			out = append(out, dir)
		}
	}
	return out
}

// boundSockets asks the kernel for the sockets that are bound to a path. Where it does not tell inodes (no CONFIG_UNIX_DIAG), there are names alone.
func boundSockets() []bound {
	if list, err := diagnosed(); err == nil {
		return list
	}
	data, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	return listedSockets(string(data))
}

// listedSockets reads /proc/net/unix. The name of an abstract socket begins with @, and may be the path of anything.
func listedSockets(table string) (out []bound) {
	for line := range strings.Lines(table) {
		if i := strings.IndexByte(line, '/'); i > 0 && line[i-1] == ' ' {
			out = append(out, bound{name: strings.TrimSuffix(line[i:], "\n")})
		}
	}
	return out
}

// Of linux/sock_diag.h and linux/unix_diag.h.
const (
	sockDiagByFamily = 20
	diagShow         = 1<<diagName | 1<<diagVFS
	diagName         = 0
	diagVFS          = 1
	diagHeader       = 16 // struct unix_diag_msg
)

// diagnosed asks for the sockets of this network namespace by NETLINK_SOCK_DIAG.
func diagnosed() ([]bound, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	ask := binary.NativeEndian.AppendUint32(nil, 0) // the length
	ask = binary.NativeEndian.AppendUint16(ask, sockDiagByFamily)
	ask = binary.NativeEndian.AppendUint16(ask, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	ask = append(ask, make([]byte, 8)...)
	ask = append(ask, unix.AF_UNIX, 0, 0, 0)
	for _, word := range []uint32{^uint32(0), 0, diagShow, 0, 0} { // all states; no single inode; what to show; a cookie
		ask = binary.NativeEndian.AppendUint32(ask, word)
	}
	binary.NativeEndian.PutUint32(ask, uint32(len(ask)))
	if err := unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	var out []bound
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return nil, err
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return out, nil
			case unix.NLMSG_ERROR:
				return nil, fmt.Errorf("asking for sockets: %w", unix.ENOTSUP)
			}
			if b, ok := parseBound(m.Data); ok {
				out = append(out, b)
			}
		}
	}
}

// parseBound reads one socket. ok is false if it is not bound to a path.
func parseBound(data []byte) (b bound, ok bool) {
	for data = data[min(diagHeader, len(data)):]; len(data) >= unix.SizeofRtAttr; {
		size := int(binary.NativeEndian.Uint16(data))
		if size < unix.SizeofRtAttr || size > len(data) {
			return b, false
		}
		value := data[unix.SizeofRtAttr:size]
		switch kind := binary.NativeEndian.Uint16(data[2:]); {
		case kind == diagName:
			b.name = strings.TrimRight(string(value), "\x00")
		case kind == diagVFS && len(value) >= 8:
			dev := binary.NativeEndian.Uint32(value[4:]) // the kernel's own form
			b.ino, b.dev = binary.NativeEndian.Uint32(value), fmt.Sprintf("%d:%d", dev>>20, dev&(1<<20-1))
		}
		data = data[min((size+3)&^3, len(data)):]
	}
	return b, b.ino != 0 && b.name != "" && b.name[0] != 0
}
