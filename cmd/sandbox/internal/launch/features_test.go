package launch

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// configured is a launcher with what a user's file and flags say, and what it remarks.
func configured(t *testing.T, file string, flags ...string) (*Launcher, *[]string) {
	t.Helper()
	conf := config.New()
	if err := conf.CheckText("user.toml", []byte(file), config.User); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(flags); i += 2 {
		if err := conf.SetFlag(flags[i], flags[i+1:i+2]); err != nil {
			t.Fatal(err)
		}
	}
	said := &[]string{}
	return &Launcher{Conf: conf, Remark: func(text string) { *said = append(*said, text) }}, said
}

// TestFileIsLeftOut: what a file asks for and the session cannot have is not in it, is told, and nobody who asks for it joins.
func TestFileIsLeftOut(t *testing.T) {
	l, said := configured(t, "jail.devices = ['kvm']\njail.mode = 'static'\nlimits.memory = '1GiB'\nvm.cpus = 2\nplaces.home = 'overlay'\nnetwork.policy = 'open'", "isolation", "none")
	with, here, left, err := l.fulfil()
	if err != nil {
		t.Fatal(err)
	}
	if want := []hypervisor.Setup{{Isolation: "none", Bridge: hypervisor.BridgeFUSE}}; !slices.Equal(here, want) {
		t.Errorf("%v", here)
	}
	if c := with.Conf; len(c.Jail.Devices) > 0 || c.Limits.Memory != 0 || c.Limits.PIDs != 0 || c.Network.Mode != policy.Open {
		t.Errorf("%+v %+v", c.Jail, c.Limits)
	}
	if len(*said) != 2 || !strings.HasPrefix((*said)[0], "sandbox: jail.devices (user.toml:1) has no effect with --isolation none: ") || !strings.HasPrefix((*said)[1], "sandbox: limits.memory (user.toml:3) has") {
		t.Errorf("said %q", *said)
	}
	settings := lacking(with.settings(), left)
	for flag, want := range map[string][]string{"device": nil, "limit-memory": nil, "limit-pids": nil, "cpus": nil, "home": nil, "mode": {"static"}, "network": {"open"}} {
		i := slices.IndexFunc(settings, func(s api.Setting) bool { return s.Flag == flag })
		if i < 0 || !slices.Equal(settings[i].Values, want) {
			t.Errorf("%s: %v", flag, settings[i])
		}
	}
	if l.Conf.Limits.PIDs == 0 || len(l.Conf.Jail.Devices) != 1 {
		t.Error("the configuration was changed")
	}
}

// TestWeakerFileIsRefused: what a file forbids and the isolation would allow is refused, and so is whatever a flag asks for.
func TestWeakerFileIsRefused(t *testing.T) {
	for want, asks := range map[string]struct{ file, flag, value string }{
		"network.policy disabled (user.toml:1) needs --isolation jail, landlock, or vm": {file: "network.policy = 'disabled'"},
		"jail.mode dynamic (user.toml:1) needs --isolation jail":                        {file: "jail.mode = 'dynamic'"},
		"--hide needs --isolation jail, landlock, or vm":                                {flag: "hide", value: "/"},
		"--home read-only needs --isolation jail, landlock, or vm":                      {flag: "home", value: "read-only"},
	} {
		flags := []string{"isolation", "none"}
		if asks.flag != "" {
			flags = append(flags, asks.flag, asks.value)
		}
		l, _ := configured(t, asks.file, flags...)
		_, _, _, err := l.fulfil()
		if refusal := (*hypervisor.Refusal)(nil); !errors.As(err, &refusal) || !console.IsUsage(err) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestFlagsOfMachines: a server keeps them for a session that may be one of a machine; a session of one command that is none refuses them.
func TestFlagsOfMachines(t *testing.T) {
	l, said := configured(t, "", "isolation", "jail", "memory", "2GiB", "cache", "none")
	if _, here, _, err := l.fulfil(); err != nil || len(*said) > 0 || !slices.Equal(here, []hypervisor.Setup{{Isolation: "jail", Bridge: hypervisor.BridgeFUSE}}) {
		t.Errorf("%v %v %q", here, err, *said)
	}
	if err := l.Useless(); err == nil || !strings.Contains(err.Error(), "--memory is about a virtual machine") {
		t.Error(err)
	}
	if l, _ = configured(t, "vm.memory = '2GiB'", "isolation", "jail", "vm-mode", "ephemeral"); l.Useless() != nil {
		t.Error(l.Useless())
	}
}
