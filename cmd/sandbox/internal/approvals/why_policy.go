package approvals

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages/lexical"
)

// sight is what is said of a path as JSON.
type sight struct {
	hypervisor.Sight
	Policy []said `json:"policy,omitempty"`
}

// said is what the policy's rules say of one operation.
type said struct {
	Operation approval.Operation `json:"operation"`
	approval.Decision
}

// rules are what the policy says of a path: of one operation, or of all that a rule is about.
// A symlink is followed, as far as it leads somewhere: rules are about what is reached.
func (c WhyCommands) rules(cfg api.Config, path, op string) (found []said) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	book := c.Policy(cfg.Directories[0].Path)
	for _, o := range []approval.Operation{approval.Read, approval.Write, approval.Exec} {
		if op != "" && op != string(o) {
			continue
		}
		d := book.Decide(approval.Query{Operation: o, Path: path})
		if o == approval.Read && d.Action != approval.Deny {
			if above, ok := hiddenAbove(book, path); ok {
				d = above
			}
		}
		if d.Action != approval.None {
			found = append(found, said{o, d})
		}
	}
	return found
}

// hiddenAbove finds the rule that hides a directory above the path, and the path with it.
func hiddenAbove(book *approval.Book, path string) (approval.Decision, bool) {
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		d := book.Decide(approval.Query{Operation: approval.Read, Path: dir})
		if d.Action == approval.Deny && d.Rule != nil && d.Rule.Answer == "" {
			d.Why += ", which hides what is below it"
			return d, true
		}
	}
	return approval.Decision{}, false
}

// decided puts into s what the policy, and the protection of the folders, make of it.
func (c WhyCommands) decided(cfg api.Config, s *hypervisor.Sight, found []said, op string) {
	for _, v := range found {
		if v.Operation == approval.Read && v.Action == approval.Deny && !s.Read {
			s.Why, s.Remedy = v.Why, v.Remedy
		}
	}
	if op != "" && op != string(approval.Write) || !s.Write {
		return
	}
	for _, d := range cfg.Directories {
		if lexical.Within(s.Path, d.Path) {
			c.writes(cfg, d.Path, s)
		}
	}
}

// writes says what decides about writing to a path of a folder.
func (c WhyCommands) writes(cfg api.Config, folder string, s *hypervisor.Sight) {
	book := c.Policy(cfg.Directories[0].Path)
	d := book.Decide(approval.Query{Operation: approval.Write, Path: s.Path})
	general := false
	if w := book.Writes(folder); w != nil {
		_, general, _ = w.Decide(s.Path)
	}
	switch {
	case d.Action == approval.Deny:
		s.Write, s.Undo, s.Why, s.Remedy = false, false, d.Why, d.Remedy
	case d.Action == approval.Ask:
		c.asked(cfg, s, "a person is asked first, by "+d.Why, d.Remedy)
	case d.Action == approval.Allow && !general || !cfg.Safeguards.Protect:
	default:
		rel, err := filepath.Rel(folder, s.Path)
		if err != nil {
			return
		}
		names := strings.Split(rel, "/")
		from, to, ok := approval.Entry(names)
		for _, t := range approval.Targets(folder) { // what git is told to run
			if !ok && len(t) <= len(names) && slices.Equal(t, names[:len(t)]) {
				to, ok = len(t), true
			}
		}
		if !ok || to == from+1 && names[from] == ".git" {
			return
		}
		entry := filepath.Join(folder, filepath.Join(names[:to]...))
		subject := approval.Exactly(entry)
		if to < len(names) {
			subject = approval.Below(entry)
		}
		c.asked(cfg, s, "a person is asked first: "+entry+" is protected, because programs may run from it outside of the sandbox",
			"sandbox policy add allow write "+api.ShellQuote(subject)+"; --safeguard-protect=false protects nothing")
	}
}

// asked says of a write that a person is asked about it.
func (c WhyCommands) asked(cfg api.Config, s *hypervisor.Sight, why, remedy string) {
	s.Write, s.Undo, s.Why, s.Remedy = false, false, why, remedy
	s.Asked = !c.refused(cfg, &s.Why, &s.Remedy)
}

func (c WhyCommands) tellRules(s hypervisor.Sight, found []said) {
	for _, v := range found {
		if v.Why == s.Why && len(v.Beside) == 0 {
			continue // it is said
		}
		fmt.Fprintf(c.Out, "policy: %s is %s by %s\n", v.Operation, map[approval.Action]string{
			approval.Allow: "allowed", approval.Deny: "denied", approval.Ask: "asked",
		}[v.Action], console.Shown(v.Why))
		fmt.Fprintln(c.Out, "  to change it: "+console.Shown(v.Remedy))
		for _, r := range v.Beside {
			fmt.Fprintln(c.Out, "  weaker: "+console.Shown(r.Explain()))
		}
	}
}

// hostByRules replaces that a person would be asked by what a rule says of the question: of a
// name, with all its ports, or of an address.
func (c WhyCommands) hostByRules(cfg api.Config, a *whyAnswer) {
	host := a.Host
	if addr, err := netip.ParseAddr(host); err == nil {
		host = "tcp/" + netip.AddrPortFrom(addr, a.Port).String()
	}
	d := c.Policy(cfg.Directories[0].Path).Decide(approval.Query{Operation: approval.Connect, Host: host})
	if d.Action != approval.None {
		a.Action, a.Why, a.Remedy = string(d.Action), d.Why, d.Remedy
	}
}
