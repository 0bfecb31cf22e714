package approvals

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Effect returns an error for a rule that decides nothing in the sessions of this configuration, with what would work instead, or says under which condition it
// does decide; an empty note is none. It asks the code that makes the view.
func Effect(cfg api.Config, r approval.Rule) (note string, err error) {
	path, whole := r.Path()
	switch {
	case r.Operation == approval.Exec && r.Action != approval.Deny:
		return "", fmt.Errorf("%s would have no effect: the view is made before anything runs, so nobody can be asked, and what no rule denies may be executed. Only deny holds about executing", console.Shown(r.String()))
	case r.Operation == approval.Exec && !whole:
		return "", fmt.Errorf("%s would have no effect: a rule about executing holds for a path, alone or with all below it (DIR/**), and for no other pattern", console.Shown(r.String()))
	case r.Operation == approval.Exec:
		return execEffect(cfg, r, path)
	case r.Operation == approval.Read && (r.Action != approval.Deny || !whole):
		return gateEffect(cfg, r, path, whole)
	}
	return "", nil
}

// execEffect looks whether the view with the rule keeps the path from being executed.
func execEffect(cfg api.Config, r approval.Rule, path string) (string, error) {
	if _, lacks := hypervisor.Lacks(cfg.Runtime.Name(), "no execution"); lacks {
		return "it holds only with " + hypervisor.Instead(cfg.Runtime.Name(), "no execution"), nil
	}
	cfg.NoExec = []string{path}
	view := viewOf(cfg)
	s, err := jail.Explain(view, path)
	if err != nil {
		return "", err
	}
	view.NoExec = nil
	before, err := jail.Explain(view, path)
	if err == nil && s.Exec && before.Exec {
		err = fmt.Errorf("%s would have no effect: the view makes this place itself (%s). 'deny read' hides it, 'deny write' keeps it as it is", console.Shown(r.String()), console.Shown(s.Why))
	}
	return "", err
}

// gateEffect looks at what a gate would ask: whether to open a file that lies directly in it, or a directory in it with everything below.
func gateEffect(cfg api.Config, r approval.Rule, path string, whole bool) (string, error) {
	const note = "it decides where a gate asks (--gate DIR, --mode dynamic): about a file directly in DIR, or about a directory there with everything in it (/**)"
	below := strings.HasSuffix(r.Subject, "/**")
	if !whole || below && r.Action == approval.Allow {
		return note, nil
	}
	for _, gate := range cfg.Gates {
		rel, in := lexical.Rel(gate, path)
		if !in || rel == "." {
			continue
		}
		if first, _, deeper := strings.Cut(rel, string(filepath.Separator)); deeper {
			asked := approval.Below(filepath.Join(gate, first))
			return "", fmt.Errorf("%s would have no effect: the gate %s asks about all of %s at once. This works: sandbox policy add %s read %s",
				console.Shown(r.String()), console.Shown(gate), console.Shown(filepath.Join(gate, first)), r.Action, api.ShellQuote(asked))
		}
		return "", nil
	}
	return note, nil
}
