package approvals

import (
	"fmt"
	"strings"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor/agents"
)

// used is what is said of a use of a key.
type used struct {
	Use string `json:"use"`
	verdictOf
}

// use explains who decides about the use of a key of an agent.
func (c WhyCommands) use(cfg api.Config, text string) error {
	u, err := agents.ParseUse(text)
	if err != nil {
		return console.Usage(err)
	}
	v, err := c.explainUse(cfg, text)
	if err != nil {
		return err
	}
	c.unasked(cfg, &v)
	return c.tell(used{text, v}, u.String(), v)
}

// explainUse decides as a session would, whose agents are those of the configuration.
func (c WhyCommands) explainUse(cfg api.Config, text string) (v verdictOf, err error) {
	agent, _, _ := strings.Cut(text, ":")
	if _, ok := cfg.Agents[agent]; !ok {
		return verdictOf{Action: "deny", Why: "there is no agent", Remedy: "--agent " + agent}, nil
	}
	book := c.Policy(cfg.Directories[0].Path)
	for _, pattern := range cfg.AllowUse {
		if _, err := book.Remember(approval.AllowedUse(pattern)); err != nil {
			return v, fmt.Errorf("--allow-use %s: %w", pattern, err)
		}
	}
	d := book.Decide(approval.Query{Operation: approval.Use, Key: text})
	v = verdictOf{Action: string(d.Action), Why: d.Why, Remedy: d.Remedy}
	if d.Action == approval.None {
		v = verdictOf{Action: "ask", Why: "no rule names it", Remedy: "--allow-use " + api.ShellQuote(text) + " allows it unasked"}
	}
	return v, nil
}
