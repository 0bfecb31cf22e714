package config

import (
	"github.com/codeagent/sandbox/hypervisor/network/inject"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/hypervisor/network/window"
)

func networkKeys() []Key {
	return []Key{
		{
			Name: "network.policy", in: "Mode", Enum: []string{"pod", "pod-ask", "open", "ask", "allowlist", "disabled"}, Rule: Tighten, Flag: "network", tighter: sameNetwork,
			Doc: "what commands reach: disabled (nothing), allowlist (what network.allow names), ask (a person about the rest), open (all but this host), " +
				"pod (what this program's own network namespace reaches, or of that the addresses that network.allow names), pod-ask (a person about the rest)",
		},
		{
			Name: "network.allow", Flag: "allow-host",
			Doc:   "what policies allowlist and ask allow unasked: [PROTOCOL/]`HOST`[:PORT[-PORT]]; HOST is an address, a range (10.0.0.0/8), a domain or *.domain, PROTOCOL tcp, udp or icmp",
			valid: func(c *Config) error { _, err := policy.ParseRules(c.Network.Allow); return err },
		},
		{
			Name: "network.deny", Rule: Tighten, Flag: "deny-host",
			Doc:   "what no policy and no person allows, written as for --allow-host: [PROTOCOL/]`HOST`[:PORT[-PORT]]",
			valid: func(c *Config) error { _, err := policy.ParseRules(c.Network.Deny); return err },
		},
		{
			Name: "network.publish", Flag: "publish",
			Doc:   "ports of the jail that the host can connect to: `[ADDR:]HOST:JAIL`, on 127.0.0.1 unless ADDR says another address, or with network.strategy JAIL alone",
			valid: func(c *Config) error { _, err := policy.ParsePorts(c.Network.Publish); return err },
		},
		{
			Name: "network.strategy", Enum: window.Strategies(), Flag: "network-strategy",
			Doc: "what is done about servers of several sessions at the same port: off, fail (each session listens in a window of ports of its own, and nowhere else), " +
				"rewire-device (they are reached at a loopback address of the session's own), rewire-port (at ports of the session's window)",
		},
		{
			Name: "network.listening_base_port", in: "BasePort", Flag: "listening-base-port",
			Doc: "the first `port` of the session's window, which commands find as LISTENING_BASE_PORT. 0: a window that no other session has",
		},
		{
			Name: "network.listening_port_count", in: "PortCount", Flag: "listening-port-count",
			Doc: "how many ports the window has (a `number`, 256 at most), which commands find as LISTENING_PORT_COUNT. 0: 16",
		},
		{
			Name: "network.listening_loopback", in: "Loopback", Flag: "listening-loopback",
			Doc: "the session's loopback `address`, which commands find as LISTENING_LOOPBACK_DEVICE. Empty: with rewire-device one that no other session has",
		},
		{
			Name: "network.inject", Flag: "inject",
			Doc:   "a header that is added outside to requests for one host, with a secret of the host's environment: `'HOST: HEADER: VALUE'`, as 'api.openai.com: Authorization: Bearer $OPENAI_API_KEY'",
			valid: injectable,
		},
	}
}

func injectable(c *Config) error {
	for _, text := range c.Network.Inject {
		if _, err := inject.Parse(text); err != nil {
			return err
		}
	}
	return nil
}
