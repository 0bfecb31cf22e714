//go:build amd64 || arm64

package inner

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// prepareIPv6 is called before the card is up. Nothing answers who asks for routers or for
// neighbours, or whether an address is free; and who has no address of IPv6 does not try. Kernels
// without IPv6 have no such files.
func prepareIPv6(card string, wanted bool) {
	off := "1"
	if wanted {
		off = "0"
	}
	for _, s := range [][2]string{{"disable_ipv6", off}, {"addr_gen_mode", "1"}, {"accept_ra", "0"}, {"autoconf", "0"}, {"accept_dad", "0"}, {"dad_transmits", "0"}} {
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+card+"/"+s[0], []byte(s[1]), 0)
	}
}

// configureIPv6 gives the card, which is up, its IPv6 address and makes the gateway the way
// to everywhere else. A kernel without IPv6 is no error.
func configureIPv6(card string, n control.MachineIPv6) error {
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		return nil
	}
	index, err := deviceIndex(card)
	if err != nil {
		return err
	}
	socket, err := routeSocket()
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	number := binary.NativeEndian.AppendUint32(nil, uint32(index))
	// Structs ifaddrmsg, ndmsg and rtmsg begin with the family.
	address := append([]byte{unix.AF_INET6, byte(n.Bits), unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE}, number...)
	neighbour := append([]byte{unix.AF_INET6, 0, 0, 0}, number...)
	neighbour = append(binary.NativeEndian.AppendUint16(neighbour, unix.NUD_PERMANENT), 0, 0)
	route := []byte{unix.AF_INET6, 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST, 0, 0, 0, 0}
	for _, r := range []struct {
		what string
		kind uint16
		body []byte
	}{
		{"address", unix.RTM_NEWADDR, attribute(address, unix.IFA_ADDRESS, n.Address[:])},
		{"neighbour", unix.RTM_NEWNEIGH, attribute(attribute(neighbour, unix.NDA_DST, n.Gateway[:]), unix.NDA_LLADDR, n.GatewayMAC[:])},
		{"route", unix.RTM_NEWROUTE, attribute(attribute(route, unix.RTA_GATEWAY, n.Gateway[:]), unix.RTA_OIF, number)},
	} {
		if err := routeRequest(socket, r.kind, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, r.body); err != nil {
			return fmt.Errorf("IPv6 %s: %w", r.what, err)
		}
	}
	return nil
}
