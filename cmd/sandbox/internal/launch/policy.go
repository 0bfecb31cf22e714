package launch

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/messages/lexical"
)

// PolicyPlaces are where the rules for a working folder are.
func PolicyPlaces(folder string) approval.Places {
	state, err := actors.StateDir()
	if err != nil {
		state = "" // no home directory: a project has no rules
	}
	return approval.Standard(state, folder)
}

// PolicyFolder is the folder whose rules a 'sandbox run' here would have: the first one of the session that it would join, or of the one that it would start.
func (l *Launcher) PolicyFolder() (string, error) {
	if len(l.Dirs) == 0 && len(l.Conf.Directory) == 0 {
		here, err := workingDirectory()
		if err != nil {
			return "", err
		}
		dir, err := l.RuntimeDir()
		if err != nil {
			return "", err
		}
		for _, info := range actors.Sessions(dir) {
			if slices.ContainsFunc(info.Directories, func(d string) bool { return lexical.Within(here, d) }) {
				return info.Directories[0], nil
			}
		}
	}
	dirs, err := l.Directories(false)
	if err != nil {
		return "", err
	}
	return dirs[0].Path, nil
}

// Policy decides by the rules for a working folder.
func Policy(folder string) *approval.Book { return approval.NewBook(PolicyPlaces(folder), time.Now) }

// unheld says that rules of the policy decide nothing in the session, if there are any, because its isolation has not what they need.
func (l *Launcher) unheld(about, feature string, rules int) {
	if why, lacks := hypervisor.Lacks(l.Conf.Isolation, feature); lacks && rules > 0 {
		l.Remark("sandbox: the policy's rules about " + about + " do not hold with --isolation " + l.Conf.Isolation + ": " + why)
	}
}

// withPolicy has the session begin with what the policy denies and allows. A file of the user's or the
// organisation's that cannot be trusted is an error: it may have denied something. Without a
// project's file that is not trusted the session begins, and that is said.
func (l *Launcher) withPolicy(cfg *api.Config) error {
	book := Policy(cfg.Directories[0].Path)
	rules, err := book.Rules()
	if err != nil {
		return err
	}
	if err := book.Untrusted(); err != nil {
		l.Remark("sandbox: " + console.Shown(err.Error()))
	}
	fixed := approval.Fixed(rules, time.Now())
	l.unheld("executing", "no execution", len(fixed.NoExec))
	l.unheld("reading", "hide", len(fixed.Hide))
	l.unheld("connecting", "denied hosts", len(fixed.Deny))
	for _, shown := range cfg.Show {
		if slices.ContainsFunc(fixed.Hide, func(denied string) bool {
			return SameFolder(denied, shown) || filepath.Clean(denied) == filepath.Clean(shown)
		}) {
			return console.Usagef("the policy denies to read %s, so it cannot be shown: leave it out, or change the rule ('sandbox policy show')", console.Shown(shown))
		}
	}
	for _, dir := range cfg.Places.Writable {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue // it is refused as it is
		}
		if d := book.Decide(approval.Query{Operation: approval.Write, Path: real}); d.Action == approval.Deny {
			return console.Usagef("--rw %s: to write to it is denied by %s; leave it out, or change the rule", console.Shown(dir), console.Shown(d.Why))
		}
	}
	cfg.Hide, cfg.NoExec = slices.Concat(cfg.Hide, fixed.Hide), fixed.NoExec
	if n := &cfg.Network; !n.None() {
		if err := (policy.Network{Mode: n.Mode, Deny: fixed.Deny}).Check(); err != nil {
			return console.Usagef("the policy denies a host by its name ('sandbox policy show'): %s", err)
		}
		n.Deny, n.Allow = slices.Concat(n.Deny, fixed.Deny), slices.Concat(n.Allow, unasked(*n, fixed.Allow))
	}
	return nil
}

// unasked are the policy's rules that allow, for this network. In a pod names are not known, and what the policy allows does not forbid the rest.
func unasked(n policy.Network, allow []string) []string {
	if n.Mode == policy.Pod && len(n.Allow) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(allow), func(rule string) bool {
		return policy.Network{Mode: n.Mode, Allow: []string{rule}}.Check() != nil
	})
}
