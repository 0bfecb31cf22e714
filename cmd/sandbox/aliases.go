package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/config"
)

// nixDaemon is where nix-daemon listens, if nothing else was asked for when Nix was built:
// nix.dev/manual/nix, "nix daemon".
const nixDaemon = "/nix/var/nix/daemon-socket/socket"

// alias is a flag under a name that people know from other programs, or for one value that many need.
type alias struct {
	name string
	flag string // of a key
	// value is what the alias stands for; empty: it takes the flag's own values.
	value string
}

// aliases are all of them. Help does not list them, docs/cli.md does.
func aliases() []alias {
	return []alias{
		{"static", "mode", "static"}, {"no-debug", "debug", "false"}, {"allow-network", "network", "open"}, {"blacklist", "hide", ""},
		{"vm", "isolation", "vm"}, {"allow-kvm", "device", "kvm"}, {"nix", "show", nixDaemon},
	}
}

// addAliases gives a command the aliases of those flags that it has.
func (a *app) addAliases(cmd *cobra.Command, names []string) {
	for _, o := range aliases() {
		if !slices.Contains(names, o.flag) || cmd.PersistentFlags().Lookup(o.name) != nil {
			continue
		}
		f := cmd.PersistentFlags().VarPF(aliasValue{o, a.keyFlags[o.flag]}, o.name, "", "the same as --"+o.flag+" "+o.value)
		f.Hidden = true
		if o.value != "" {
			f.NoOptDefVal = "true"
		}
	}
}

// aliasValue sets another flag.
type aliasValue struct {
	alias
	to *config.FlagValue
}

// Set implements cobra's value interface.
func (v aliasValue) Set(s string) error {
	switch {
	case v.value == "":
		return v.to.Set(s)
	case s != "true":
		return fmt.Errorf("it takes no value: use --%s", v.flag)
	}
	return v.to.Set(v.value)
}

// String implements cobra's value interface: there is no default.
func (v aliasValue) String() string { return "" }

// Type implements cobra's value interface.
func (v aliasValue) Type() string {
	if v.value == "" {
		return v.to.Type()
	}
	return "bool"
}
