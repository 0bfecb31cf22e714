package jail

import (
	"golang.org/x/sys/unix"
)

// mayUse reports whether commands may read or write a device of the host's.
func (p *planner) mayUse(path string, st *unix.Stat_t) bool {
	if p.user.ByRoot {
		return p.user.Bits(st)&(unix.R_OK|unix.W_OK) != 0
	}
	return unix.Access(path, unix.R_OK) == nil || unix.Access(path, unix.W_OK) == nil
}

// drivers are those of the devices that commands may use.
func (p *plan) drivers() (names []string) {
	for _, d := range p.devices {
		names = append(names, d.Driver)
	}
	return names
}
