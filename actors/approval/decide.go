package approval

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Query is what is asked. A destination without a protocol is any protocol's, so that only a
// rule without one is about it.
type Query struct {
	Operation Operation
	// Path is absolute and clean, with no symlink in it: what the operation would reach.
	Path string
	// Host is the destination as a rule would name it: "tcp/example.com:443", or without
	// a protocol or a port for any of them.
	Host string
	// Key is the use of a key, as a rule would name it.
	Key string
}

// Subject is what a rule about just this is about.
func (q Query) Subject() string {
	switch q.Operation {
	case Connect:
		return q.Host
	case Use:
		return q.Key
	}
	return Exactly(q.Path)
}

// Decision is the answer to a [Query].
type Decision struct {
	Action Action `json:"action"` // None: no rule matches
	// Rule is what decides; nil: none, or a file that cannot be trusted.
	Rule *Rule `json:"rule,omitempty"`
	// Scope is that of the rule.
	Scope Scope `json:"scope,omitempty"`
	// Why says in one line what decides, and Remedy what would change it.
	Why    string `json:"why"`
	Remedy string `json:"remedy,omitempty"`
	// Beside are the other rules that match, those that deny first.
	Beside []Rule `json:"beside,omitempty"`
}

// Decide answers the question by the rules; see the package's documentation for which
// wins. A question that cannot be understood is denied, and the error says why.
func Decide(rules []Rule, q Query, now time.Time) (Decision, error) {
	asked := subject{}
	var err error
	if q.Operation.OfPaths() && !whole(q.Path) {
		err = fmt.Errorf("path %q: a question needs one that is absolute and resolved", q.Path)
	} else {
		asked, err = parseSubject(q.Operation, q.Subject())
	}
	if err != nil {
		return Decision{Action: Deny, Why: err.Error()}, err
	}
	var matching, above []Rule
	for _, r := range rules {
		if r.Operation != q.Operation || r.Ended(now) || !r.parsed.covers(asked) {
			continue
		}
		matching = append(matching, r)
		if r.Scope == Organisation {
			above = append(above, r)
		}
	}
	if len(matching) == 0 {
		return Decision{Why: "no rule of the policy names it", Remedy: addCommand(q, Allow)}, nil
	}
	winner := strongest(above)
	if len(above) == 0 || winner.Action != Deny {
		winner = strongest(matching)
	}
	d := Decision{Action: winner.Action, Rule: &winner, Scope: winner.Scope, Why: winner.Explain(), Remedy: remedy(q, winner)}
	same := func(r Rule) bool { return r.ID == winner.ID && r.Action == winner.Action }
	d.Beside = slices.DeleteFunc(matching, same)
	slices.SortFunc(d.Beside, order)
	return d, nil
}

// strongest is the rule that decides, of those that match.
func strongest(rules []Rule) Rule {
	left := slices.Clone(rules)
	left = slices.DeleteFunc(left, func(r Rule) bool {
		return slices.ContainsFunc(rules, func(o Rule) bool { return r.Covers(o) && !o.Covers(r) })
	})
	if len(left) == 0 {
		return Rule{}
	}
	return slices.MinFunc(left, order)
}

// order sorts equals: deny, ask, allow; then the narrower scope. The rest only makes it
// the same each time.
func order(a, b Rule) int {
	weight := map[Action]int{Deny: 0, Ask: 1, Allow: 2}
	return cmp.Or(
		cmp.Compare(weight[a.Action], weight[b.Action]),
		-cmp.Compare(slices.Index(Scopes(), a.Scope), slices.Index(Scopes(), b.Scope)),
		strings.Compare(a.Subject, b.Subject),
		strings.Compare(a.ID, b.ID),
		a.Until.Compare(b.Until), a.At.Compare(b.At), strings.Compare(a.Explain(), b.Explain()),
	)
}

// Explain is the rule in a sentence's part, for people: whose it is, who made it and why.
func (r Rule) Explain() string {
	text := fmt.Sprintf("the %s's rule %s: %s", r.Scope, r.ID, r)
	var notes []string
	if r.By != "" {
		notes = append(notes, "by "+r.By)
	}
	if !r.At.IsZero() {
		notes = append(notes, "of "+r.At.Format(time.DateTime))
	}
	if !r.Until.IsZero() {
		notes = append(notes, "until "+r.Until.Format(time.DateTime))
	}
	if r.Why != "" {
		notes = append(notes, "because "+r.Why)
	}
	if len(notes) > 0 {
		text += " (" + strings.Join(notes, ", ") + ")"
	}
	return text
}

// remedy is what would change the answer that the rule gives.
func remedy(q Query, r Rule) string {
	switch r.Scope {
	case Organisation:
		if r.Action == Deny {
			return "only the organisation can: its file is " + OrganisationFile
		}
	case Session:
		return "it ends with the session"
	default:
		return "sandbox policy remove " + r.ID
	}
	return addCommand(q, Deny)
}

func addCommand(q Query, a Action) string {
	return fmt.Sprintf("sandbox policy add %s %s %s", a, q.Operation, quoted(q.Subject()))
}

// quoted is a word for a shell.
func quoted(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("/._-+:,@%=", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
