package jail

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// unreached reads the kernel's counters of the guest's own network stack.
type unreached struct {
	once     sync.Once
	counters *os.File // /proc/PID/net/snmp; nil if that cannot be had
	loopback bool     // the machine's resolver listens on its loopback, and inside nobody does
}

// Unreached implements [hypervisor.Unwired]. The loopback is the only way out of a guest without a network: the kernel
// counts what it has no route for, and lookups at a resolver that is not there.
func (g *guest) Unreached() uint64 {
	if g.wired != nil || g.cfg.InPod() {
		return 0
	}
	u := &g.unreached
	u.once.Do(func() {
		u.counters, _ = os.Open(fmt.Sprintf("/proc/%d/net/snmp", g.pid1.PID))
		conf, _ := os.ReadFile(resolvConf)
		u.loopback = strings.Contains(string(conf), "nameserver 127.") || !strings.Contains(string(conf), "nameserver ")
	})
	if u.counters == nil {
		return 0
	}
	var buf [4096]byte
	n, _ := u.counters.ReadAt(buf[:], 0) // up to its end, which is an error
	sum := counter(buf[:n], "Ip:", "OutNoRoutes")
	if u.loopback {
		sum += counter(buf[:n], "Udp:", "NoPorts")
	}
	return sum
}

func (u *unreached) close() {
	u.once.Do(func() {})
	if u.counters != nil {
		_ = u.counters.Close()
	}
}

// counter finds a counter in the text of /proc/net/snmp: a line of names is followed by one of values.
func counter(text []byte, protocol, name string) uint64 {
	var names [][]byte
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		switch {
		case len(fields) == 0 || string(fields[0]) != protocol:
		case names == nil:
			names = fields
		default:
			for i := range min(len(names), len(fields)) {
				if string(names[i]) == name {
					n, _ := strconv.ParseUint(string(fields[i]), 10, 64) // 0 is as good
					return n
				}
			}
			return 0
		}
	}
	return 0
}
