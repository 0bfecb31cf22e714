package filters

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestSharedSockets: in the host's network namespace there are TCP and UDP alone, connections go to the listener, and with rules each datagram that can name where it goes.
func TestSharedSockets(t *testing.T) {
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	const noFam, fast = uint32(retNoFam), unix.MSG_FASTOPEN | unix.MSG_NOSIGNAL
	type in [6]uint32
	for _, c := range []struct {
		call                          uint32
		args                          in
		connections, datagrams, alone uint32 // what the filters of a jail return, without rules about datagrams and with them, and that of Landlock's guest whose sockets are made
	}{
		{unix.SYS_SOCKET, in{unix.AF_INET, unix.SOCK_STREAM, 0}, retAllow, retAllow, retNotify},
		{unix.SYS_SOCKET, in{unix.AF_INET6, unix.SOCK_STREAM | flags, unix.IPPROTO_TCP}, retAllow, retAllow, retNotify},
		{unix.SYS_SOCKET, in{unix.AF_INET, unix.SOCK_DGRAM | flags, unix.IPPROTO_ICMP}, retAllow, retAllow, retAllow},
		{unix.SYS_SOCKET, in{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, retNoProtocol, retNoProtocol, retNoProtocol},
		{unix.SYS_SOCKET, in{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE}, retNoProtocol, retNoProtocol, retNoProtocol},
		{unix.SYS_SOCKET, in{unix.AF_INET, unix.SOCK_SEQPACKET, 0}, retNoType, retNoType, retNoType},
		{unix.SYS_SOCKET, in{unix.AF_INET6, unix.SOCK_RAW, 0}, retNoType, retNoType, retNoType},
		{unix.SYS_SOCKET, in{unix.AF_NETLINK, unix.SOCK_RAW, 0}, retAllow, retAllow, retAllow},
		{unix.SYS_SOCKET, in{unix.AF_UNIX, unix.SOCK_STREAM, 0}, retAllow, retAllow, noFam},
		{unix.SYS_SOCKET, in{unix.AF_PACKET, unix.SOCK_RAW, 0}, noFam, noFam, noFam},
		{unix.SYS_SOCKET, in{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, noFam, noFam, noFam},
		{unix.SYS_CONNECT, in{}, retNotify, retNotify, retNotify},
		{unix.SYS_SENDTO, in{}, retAllow, retAllow, retAllow},
		{unix.SYS_SENDTO, in{3: fast}, retNotSup, retNotSup, retNotSup},
		{unix.SYS_SENDTO, in{4: 0x1000}, retAllow, retNotify, retAllow},
		{unix.SYS_SENDMSG, in{}, retAllow, retNotify, retAllow},
		{unix.SYS_SENDMSG, in{2: fast}, retNotSup, retNotSup, retNotSup},
		{unix.SYS_SENDMMSG, in{}, retAllow, retNotify, retAllow},
		{unix.SYS_SENDMMSG, in{3: fast}, retNotSup, retNotSup, retNotSup},
		{unix.SYS_SETSOCKOPT, in{1: unix.SOL_IP, 2: unix.IP_OPTIONS}, retPerm, retPerm, retPerm},
		{unix.SYS_SETSOCKOPT, in{1: unix.SOL_IPV6, 2: unix.IPV6_RTHDR}, retPerm, retPerm, retPerm},
		{unix.SYS_SETSOCKOPT, in{1: unix.SOL_IPV6, 2: unix.IPV6_V6ONLY}, retAllow, retAllow, retAllow},
		{unix.SYS_SETSOCKOPT, in{1: unix.SOL_TCP, 2: unix.TCP_FASTOPEN_CONNECT}, retNotSup, retNotSup, retNotSup},
		{unix.SYS_SETSOCKOPT, in{1: unix.SOL_TCP, 2: unix.TCP_KEEPIDLE}, retAllow, retAllow, retAllow}, // the number of IP_OPTIONS
	} {
		data := map[uint32]uint32{offArch: auditArch, offNr: c.call}
		for i, arg := range c.args {
			data[offArg0+8*uint32(i)] = arg
		}
		for want, p := range map[*uint32][]unix.SockFilter{
			&c.connections: Jail(Settings{Mediated: true, Sharing: SharedConnections}), &c.datagrams: Jail(Settings{Mediated: true, Sharing: SharedDatagrams}), &c.alone: Confined(false, SharedKept),
		} {
			if got := interpret(t, p, data); got != *want {
				t.Errorf("call %d %v: %#x, want %#x", c.call, c.args, got, *want)
			}
		}
	}
	high := map[uint32]uint32{offArch: auditArch, offNr: unix.SYS_SENDTO, offArg4High: 1}
	if got := interpret(t, Jail(Settings{Mediated: true, Sharing: SharedDatagrams}), high); got != retNotify {
		t.Errorf("an address above 4 GiB: %#x", got)
	}
}
