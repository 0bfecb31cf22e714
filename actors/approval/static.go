package approval

import (
	"slices"
	"time"

	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// Fixed is what of the rules holds in a session without a question, from its start: paths
// that the view hides, destinations that are denied, and such that are allowed. A rule about
// reading counts if it denies a path or everything below one. Exceptions from what is denied
// do not count, and what is allowed for a time, or with an exception that is asked, is left
// out: so this is never wider than what [Decide] says. Answers are left out, too: they stand where
// a person would be asked.
func Fixed(rules []Rule, now time.Time) (hide []string, deny, allow []policy.Rule) {
	for _, r := range rules {
		if r.Ended(now) || r.Answer != "" {
			continue
		}
		asked := func(o Rule) bool { return o.Action == Ask && !o.Ended(now) && r.Covers(o) }
		switch path, whole := r.parsed.path(); {
		case r.Operation == Connect && r.Action == Deny:
			deny = append(deny, r.parsed.host)
		case r.Operation == Connect && r.Action == Allow && r.Until.IsZero() && !slices.ContainsFunc(rules, asked):
			allow = append(allow, r.parsed.host)
		case r.Operation == Read && r.Action == Deny && whole:
			hide = append(hide, path)
		}
	}
	return hide, deny, allow
}

// path is the path that the pattern names, alone or with all that is below it.
func (s subject) path() (string, bool) {
	text := ""
	for i, name := range s.names {
		if name[0] == anyNames && i == len(s.names)-1 {
			break
		}
		text += "/"
		for _, t := range name {
			if t < 0 {
				return "", false
			}
			text += string([]byte{byte(t)})
		}
	}
	return text, text != ""
}
