package pod

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probes tries things in the session, and says of each what came of it: "WHAT: ok", "WHAT: ok, and what was read", or "WHAT: the error".
func probes(list []string) {
	for _, what := range list {
		kind, arg, _ := strings.Cut(what, "/")
		try := map[string]func(string) (string, error){
			"tcp": tryTCP, "udp": tryUDP, "udpsend": trySendTo, "name": tryName, "own": tryOwn, "ownudp": tryOwnUDP, "abstract": tryAbstract, "fast": tryFast, "socket": trySocket,
			"unix": tryUnix, "options": tryOptions, "race": tryRace, "netlink": tryNetlink, "many": tryMany, "blocking": tryBlocking, "passed": tryPassed, "closed": tryClosed, "hold": tryHold, "bind": tryBind, "unspecified": tryUnspecified,
		}[kind]
		if try == nil {
			fmt.Println(what + ": no such probe")
			continue
		}
		said, err := try(arg)
		switch errno := syscall.Errno(0); {
		case errors.As(err, &errno):
			fmt.Println(what + ": " + unix.ErrnoName(errno))
		case err != nil:
			fmt.Println(what + ": " + err.Error())
		default:
			fmt.Println(strings.TrimSuffix(what+": ok, "+said, ", "))
		}
	}
}

func tryTCP(to string) (string, error) {
	c, err := net.DialTimeout("tcp", to, patience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return readLine(c), nil
}

func tryUDP(to string) (string, error) {
	c, err := net.Dial("udp", to)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := c.Write([]byte("ping")); err != nil {
		return "", err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	b := make([]byte, 100)
	n, err := c.Read(b)
	return string(b[:n]), err
}

// trySendTo sends a datagram by a socket that is not connected: as sendto, and as sendmsg with data in parts.
func trySendTo(to string) (string, error) {
	c, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return "", err
	}
	defer c.Close()
	at := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to))
	for range 2 {
		if _, err := c.WriteTo([]byte("ping"), at); err != nil {
			return "", err
		}
	}
	if _, _, err := c.WriteMsgUDP([]byte("message"), nil, at); err != nil {
		return "", err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	var said []string
	for range 3 {
		b := make([]byte, 100)
		n, _, err := c.ReadFrom(b)
		if err != nil {
			return "", err
		}
		said = append(said, string(b[:n]))
	}
	return strings.Join(said, " "), nil
}

func tryName(name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	addrs, err := (&net.Resolver{PreferGo: true}).LookupHost(ctx, name)
	return strings.Join(addrs, " "), err
}

// tryOwn connects to a server of its own, by each name that leads to it.
func tryOwn(string) (string, error) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "own")
			c.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	for _, host := range []string{"127.0.0.1", "0.0.0.0", "::1", "::", self, "localhost"} {
		if said, err := tryTCP(net.JoinHostPort(host, fmt.Sprint(port))); err != nil || said != "own" {
			return "", fmt.Errorf("%s: %q, %w", host, said, err)
		}
	}
	return "", nil
}

// tryHold listens at an address, at which everybody is told the name of the folder; it connects by the name localhost itself, says where its socket is, and goes on until stdin ends. A variable
// may stand for the port.
func tryHold(at string) (string, error) {
	at = os.ExpandEnv(at)
	l, err := net.Listen("tcp", at)
	if err != nil {
		return "", err
	}
	defer l.Close()
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, filepath.Base(dir)+"\n")
			c.Close()
		}
	}()
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		return "", err
	}
	said, err := tryTCP("localhost:" + port)
	if err != nil {
		return "", err
	}
	fmt.Println("at", l.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return said, err
}

// tryBind binds a socket of UDP.
func tryBind(at string) (string, error) {
	l, err := net.ListenPacket("udp", at)
	if err != nil {
		return "", err
	}
	return "", l.Close()
}

// tryUnspecified binds a port by an address that does not say its family, which the kernel takes for IPv4.
func tryUnspecified(port string) (string, error) {
	n, err := strconv.Atoi(port)
	if err != nil {
		return "", err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	raw := make([]byte, 120) // longer than an address of a unix socket
	binary.BigEndian.PutUint16(raw[2:], uint16(n))
	if _, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&raw[0])), uintptr(len(raw))); errno != 0 {
		return "", errno
	}
	return "", nil
}

// tryOwnUDP sends to a socket of its own, and gets an answer at the port that it was given by sending.
func tryOwnUDP(string) (string, error) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer server.Close()
	go func() {
		b := make([]byte, 100)
		n, from, err := server.ReadFrom(b)
		if err == nil {
			_, _ = server.WriteTo(b[:n], from)
		}
	}()
	return tryUDP(server.LocalAddr().String())
}

func tryAbstract(name string) (string, error) {
	c, err := net.Dial("unix", "@"+name)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return readLine(c), nil
}

// tryFast connects by sending.
func tryFast(to string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	a := netip.MustParseAddrPort(to)
	return "", unix.Sendto(fd, []byte("GET"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()})
}

// trySocket makes a socket: FAMILY,TYPE,PROTOCOL.
func trySocket(numbers string) (string, error) {
	var family, kind, protocol int
	if _, err := fmt.Sscanf(numbers, "%d,%d,%d", &family, &kind, &protocol); err != nil {
		return "", err
	}
	fd, err := unix.Socket(family, kind, protocol)
	if err == nil {
		_ = unix.Close(fd)
	}
	return "", err
}

// tryUnix connects to a socket with a path of its own, whose other end finds out who it is.
func tryUnix(path string) (string, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return "", err
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		return "", err
	}
	defer c.Close()
	other, err := l.Accept()
	if err != nil {
		return "", err
	}
	defer other.Close()
	raw, err := other.(*net.UnixConn).SyscallConn()
	if err != nil {
		return "", err
	}
	var who *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil || err != nil {
		return "", errors.Join(cerr, err)
	}
	if int(who.Uid) != os.Getuid() {
		return "", fmt.Errorf("connected by %d, not %d", who.Uid, os.Getuid())
	}
	return "", nil
}

// tryPassed passes a descriptor on by sendmsg, and reads what was written through it.
func tryPassed(string) (string, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		return "", err
	}
	if err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(pipe[1]), nil, 0); err != nil {
		return "", err
	}
	b, oob := make([]byte, 10), make([]byte, 100)
	_, n, _, _, err := unix.Recvmsg(pair[1], b, oob, 0)
	if err != nil {
		return "", err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return "", fmt.Errorf("%d messages, %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return "", fmt.Errorf("%v, %w", fds, err)
	}
	if _, err := unix.Write(fds[0], []byte("through")); err != nil {
		return "", err
	}
	m, err := unix.Read(pipe[0], b)
	return string(b[:m]), err
}

// tryClosed writes to a stream whose other end is gone: the signal comes, as without us.
func tryClosed(string) (string, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	_ = unix.Close(pair[1])
	return "", unix.Sendmsg(pair[0], []byte("x"), nil, nil, unix.MSG_NOSIGNAL)
}

// tryOptions sets routes.
func tryOptions(string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_KEEPIDLE, 10); err != nil {
		return "", fmt.Errorf("an ordinary option: %w", err)
	}
	return "", unix.SetsockoptString(fd, unix.SOL_IP, unix.IP_OPTIONS, "\x89\x07\x04"+string(netip.MustParseAddr(metadata).AsSlice())+"\x00")
}

// tryNetlink asks for the interfaces: a C library does before it looks up a name.
func tryNetlink(string) (string, error) {
	list, err := net.Interfaces()
	if err == nil && len(list) < 2 {
		err = fmt.Errorf("%d interfaces", len(list))
	}
	return "", err
}

// tryMany makes connections at the same time.
func tryMany(to string) (string, error) {
	var work sync.WaitGroup
	var failed atomic.Value
	for range 50 {
		work.Go(func() {
			if said, err := tryTCP(to); err != nil || said != "hello" {
				failed.Store(fmt.Sprint(said, err))
			}
		})
	}
	work.Wait()
	if f := failed.Load(); f != nil {
		return "", errors.New(f.(string))
	}
	return "", nil
}

// tryBlocking connects by a socket that blocks.
func tryBlocking(to string) (string, error) {
	a := netip.MustParseAddrPort(to)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}); err != nil {
		return "", err
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		return "", fmt.Errorf("flags %#x, %w", flags, err)
	}
	b := make([]byte, 100)
	n, err := unix.Read(fd, b)
	return strings.TrimSpace(string(b[:n])), err
}

// tryRace connects while another thread exchanges the address, and the socket: once it is one that may be reached, and once the metadata service. The other machines tell
// if they are ever connected to.
func tryRace(string) (string, error) {
	var sa [16]byte
	binary.NativeEndian.PutUint16(sa[:], unix.AF_INET)
	good, bad := netip.MustParseAddr(peer).As4(), netip.MustParseAddr(metadata).As4()
	binary.BigEndian.PutUint16(sa[2:], 80)
	const at = 500 // a descriptor that nobody has
	var stop atomic.Bool
	var work sync.WaitGroup
	host := (*uint32)(unsafe.Pointer(&sa[4]))
	work.Go(func() {
		for !stop.Load() {
			atomic.StoreUint32(host, binary.NativeEndian.Uint32(good[:]))
			atomic.StoreUint32(host, binary.NativeEndian.Uint32(bad[:]))
		}
	})
	work.Go(func() { // a unix socket, which is looked at otherwise, takes the place of the one for TCP
		other, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return
		}
		for !stop.Load() {
			_ = unix.Dup3(other[0], at, 0)
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
			if err == nil {
				_ = unix.Dup3(fd, at, 0)
				_ = unix.Close(fd)
			}
		}
	})
	for range 1000 {
		_, _, _ = unix.Syscall(unix.SYS_CONNECT, at, uintptr(unsafe.Pointer(&sa)), 16)
	}
	stop.Store(true)
	work.Wait()
	return "", nil
}
