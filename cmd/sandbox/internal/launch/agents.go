package launch

import (
	"os"
	"path/filepath"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/exit"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/format"
	"github.com/codeagent/sandbox/hypervisor"
)

// agents lets programs inside ask for the use of keys. What ssh needs beside the agent, and what is no secret, is shown: public keys, and the keys of servers that
// the user knows.
func (l *Launcher) agents(cfg *api.Config) error {
	for _, pattern := range l.Conf.Jail.AllowUse {
		if _, err := approval.AllowedUse(pattern).Checked(""); err != nil {
			return exit.Usage(err)
		}
		if len(l.Conf.Jail.Agents) == 0 {
			return exit.Usagef("--allow-use %s has no effect: there is no agent; add --agent ssh", format.Shown(pattern))
		}
		cfg.AllowUse = append(cfg.AllowUse, pattern)
	}
	for _, name := range l.Conf.Jail.Agents {
		if kind := cfg.Runtime.Name(); kind != "jail" {
			return exit.Usagef("--agent %s needs --isolation jail, and here it would be %s: nothing inside reaches a socket outside there", name, kind)
		}
		variable := hypervisor.AgentVariable(name)
		socket := os.Getenv(variable)
		if st, err := os.Stat(socket); err != nil || !filepath.IsAbs(socket) || st.Mode().Type() != os.ModeSocket {
			return exit.Usagef("--agent %s: %s names no socket of an agent (%s): start one with 'eval $(ssh-agent)', and give it keys with ssh-add", name, variable, format.Shown(socket))
		}
		if cfg.Agents == nil {
			cfg.Agents = make(map[string]string)
		}
		cfg.Agents[name] = socket
	}
	if home, err := os.UserHomeDir(); err == nil && cfg.Agents["ssh"] != "" {
		for _, pattern := range []string{"known_hosts", "known_hosts2", "*.pub"} {
			public, _ := filepath.Glob(filepath.Join(home, ".ssh", pattern)) // the pattern is well-formed but for a strange home
			cfg.Show = append(cfg.Show, public...)
		}
	}
	return nil
}
