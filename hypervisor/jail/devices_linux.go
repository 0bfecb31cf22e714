package jail

import (
	"errors"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages/lexical"
)

// mayUse reports whether commands may read or write a device of the host's.
func (p *planner) mayUse(path string, st *unix.Stat_t) bool {
	if p.user.ByRoot {
		return p.user.Bits(st)&(unix.R_OK|unix.W_OK) != 0
	}
	return unix.Access(path, unix.R_OK) == nil || unix.Access(path, unix.W_OK) == nil
}

// explainDevice says of a path in /dev, where a jail has a few devices of its own, whether it is one of the host's that are given, and else why it is not there.
func (p *planner) explainDevice(s *hypervisor.Sight, given []deviceNode) {
	if _, own := ownDevices(s.Path); own || s.Path == "/dev" || slices.ContainsFunc(given, func(d deviceNode) bool { return lexical.Within(d.Path, s.Path) && d.Path != s.Path }) {
		return
	}
	if slices.ContainsFunc(given, func(d deviceNode) bool { return d.Path == s.Path }) {
		s.Why = "the host's device, by --device"
		p.permit(s, false)
		return
	}
	s.Read, s.Write = false, false
	_, err := findDevice([]string{s.Path}, p.mayUse)
	var missing *deviceError
	switch s.Why = "of /dev a jail has the few devices that programs need, and this is none of them"; {
	case err == nil && filepath.Dir(s.Path) == "/dev":
		s.Remedy = "--device " + filepath.Base(s.Path) + " gives it"
	case err == nil:
		s.Remedy = "--device " + s.Path + " gives it"
	case errors.As(err, &missing):
		s.Why += "; " + missing.Err.Error()
	}
}

// drivers are those of the devices that commands may use.
func (p *plan) drivers() (names []string) {
	for _, d := range p.devices {
		names = append(names, d.Driver)
	}
	return names
}
