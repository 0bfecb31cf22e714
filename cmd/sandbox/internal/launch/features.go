package launch

import (
	"slices"
	"strings"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor"
)

// fulfil says which ways to run commands have what the configuration asks for. The launcher that it returns asks for nothing else: what is left out is
// not in its configuration, and left has the keys. What cannot be had and is not left out is an error ([hypervisor.Choose] is the rule).
func (l *Launcher) fulfil() (_ *Launcher, here []hypervisor.Setup, left []string, err error) {
	isolation, asks := l.isolation(), l.Conf.Asks()
	for i := range asks { // a server's flags are for all sessions that its client may start; for one session [Launcher.Useless] has looked
		if aboutMachines(asks[i]) {
			asks[i].By = min(asks[i].By, hypervisor.ByFile)
		}
	}
	c, err := hypervisor.Choose(isolation, asks)
	if err != nil {
		return nil, nil, nil, console.Usage(err)
	}
	for _, ask := range c.Left {
		left = append(left, ask.Key)
		l.tellLeft(ask)
	}
	with := *l
	with.Conf = l.Conf.Without(left...)
	if with.Conf == l.Conf {
		with.Conf = l.Conf.Clone()
	}
	with.Conf.Isolation = isolation
	return &with, c.Setups, left, nil
}

// tellLeft says what is left out, if somebody may miss it.
func (l *Launcher) tellLeft(ask hypervisor.Left) {
	switch {
	case ask.Silent:
	case l.Left != nil:
		l.Left(ask)
	default:
		l.Remark("sandbox: " + console.Shown(ask.String()))
	}
}

// aboutMachines tells whether nothing but a virtual machine has a use for what is asked for.
func aboutMachines(a hypervisor.Ask) bool {
	return strings.HasPrefix(a.Key, "vm.") && a.By == hypervisor.ByFlag
}

// Useless refuses flags about virtual machines for a session that has none. What files of configuration say for other
// sessions may stay there.
func (l *Launcher) Useless() error {
	if !l.Conf.Flagged("vm.") { // most commands: they are spared the rest
		return nil
	}
	asks := slices.DeleteFunc(l.Conf.Asks(), func(a hypervisor.Ask) bool { return !aboutMachines(a) })
	if _, err := hypervisor.Choose(l.isolation(), asks); err != nil {
		return console.Usage(err)
	}
	return nil
}

// lacking are settings of a session without the values of what it lacks, so that nobody who asks for one joins it.
func lacking(settings []api.Setting, left []string) []api.Setting {
	for _, k := range config.Keys() {
		if i := slices.IndexFunc(settings, func(s api.Setting) bool { return s.Flag == k.Flag }); i >= 0 && slices.Contains(left, k.Name) {
			settings[i].Values = nil
		}
	}
	return settings
}
