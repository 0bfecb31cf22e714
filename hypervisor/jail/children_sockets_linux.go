package jail

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

const (
	maxSockets     = 1 << 16 // lines of a table, at most
	maxDescriptors = 1 << 16 // of all processes
)

// socketOwner finds a process in the pid namespace of process first, which is PID 1 there, that has the socket bound to the
// address in that process's network; protocol is "tcp" or "udp". It is slow and for people: the socket may be shared, passed
// on or closed meanwhile, and what is in another network namespace inside is not found.
func socketOwner(first int, protocol string, source netip.AddrPort) (pid int, ok bool) {
	inode := ""
	for _, table := range []string{protocol, protocol + "6"} {
		if inode = socketInode("/proc/"+strconv.Itoa(first)+"/net/"+table, source); inode != "" {
			break
		}
	}
	one, err := readIdentity(strconv.Itoa(first))
	names, listed := numbers("/proc")
	if inode == "" || err != nil || listed != nil {
		return 0, false
	}
	known := make(map[int]identity)
	for _, name := range names {
		if id, err := readIdentity(name); err == nil && id.inside(len(one.pids)) != 0 {
			n, _ := strconv.Atoi(name)
			known[n] = id
		}
	}
	left := maxDescriptors
	for n := range known {
		if ours, _ := descends(known, n, first); ours && hasSocket(n, "socket:["+inode+"]", &left) {
			return n, true
		}
	}
	return 0, false
}

// hasSocket reports whether one of a process's descriptors is the socket.
func hasSocket(pid int, link string, left *int) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	fds, err := numbers(dir)
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if *left--; *left < 0 {
			return false
		}
		if target, err := os.Readlink(dir + "/" + fd); err == nil && target == link {
			return true
		}
	}
	return false
}

// socketInode looks for a local address in a table of /proc/PID/net: a bound one, or one that is bound to all addresses.
func socketInode(table string, source netip.AddrPort) (inode string) {
	f, err := os.Open(table)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for range maxSockets {
		if !lines.Scan() {
			break
		}
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[9] == "0" {
			continue
		}
		local, ok := parseAddress(fields[1])
		switch {
		case !ok || local.Port() != source.Port():
		case local.Addr() == source.Addr().Unmap():
			return fields[9]
		case local.Addr().IsUnspecified():
			inode = fields[9]
		}
	}
	return inode
}

// parseAddress reads "0100007F:0050": words of the machine's order, and the port.
func parseAddress(s string) (a netip.AddrPort, ok bool) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	p, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(b) != 4 && len(b) != 16 {
		return a, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.BigEndian.PutUint32(b[i:], binary.NativeEndian.Uint32(b[i:]))
	}
	addr, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr.Unmap(), uint16(p)), ok
}
