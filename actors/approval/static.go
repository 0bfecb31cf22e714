package approval

import (
	"slices"
	"time"
)

// Holds is what holds in a session from its start: paths that the view hides, paths from which
// nothing is executed, destinations that are denied, and such that are allowed.
type Holds struct {
	Hide, NoExec []string
	Deny, Allow  []string // rules of the network
}

// Fixed is what of the rules holds in a session without a question, from its start. A rule about
// reading or executing counts if it denies a path or everything below one. Exceptions from what is denied
// do not count, and what is allowed for a time, or with an exception that is asked, is left
// out: so this is never wider than what [Decide] says. Answers are left out, too: they stand where
// a person would be asked.
func Fixed(rules []Rule, now time.Time) (f Holds) {
	for _, r := range rules {
		if r.Ended(now) || r.Answer != "" {
			continue
		}
		asked := func(o Rule) bool { return o.Action == Ask && !o.Ended(now) && r.Covers(o) }
		switch path, whole := r.parsed.path(); {
		case r.Operation == Connect && r.Action == Deny:
			f.Deny = append(f.Deny, r.parsed.host.String())
		case r.Operation == Connect && r.Action == Allow && r.Until.IsZero() && !slices.ContainsFunc(rules, asked):
			f.Allow = append(f.Allow, r.parsed.host.String())
		case r.Operation == Read && r.Action == Deny && whole:
			f.Hide = append(f.Hide, path)
		case r.Operation == Exec && r.Action == Deny && whole:
			f.NoExec = append(f.NoExec, path)
		}
	}
	return f
}

// Path is the path that the rule's subject names, alone or with all that is below it; false: it is another pattern, or a destination.
func (r Rule) Path() (string, bool) { return r.parsed.path() }

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

// Writes are the rules about writing in one folder, as they were when it was made.
type Writes struct {
	rules  []Rule
	folder subject
	now    func() time.Time
}

// Writes returns the rules that hold about writing to the folder now; nil if there are none. If a
// file cannot be trusted, the rules of the others hold.
func (b *Book) Writes(folder string) *Writes {
	rules, _ := b.Rules()
	rules = slices.DeleteFunc(rules, func(r Rule) bool { return r.Operation != Write })
	parsed, err := parseSubject(Write, Below(folder))
	if len(rules) == 0 || err != nil {
		return nil
	}
	return &Writes{rules, parsed, b.now}
}

// Decide says what the rules say of a path. general is set if the rule is about the whole folder.
func (w *Writes) Decide(path string) (action Action, general bool, why string) {
	d, err := Decide(w.rules, Query{Operation: Write, Path: path}, w.now())
	if err != nil || d.Rule == nil {
		return d.Action, false, d.Why
	}
	return d.Action, d.Rule.parsed.covers(w.folder), d.Why
}

// Within reports whether a rule that denies or asks may be about a path below the directory.
func (w *Writes) Within(dir string) bool {
	at, err := parseSubject(Write, Exactly(dir))
	if err != nil {
		return true
	}
	return slices.ContainsFunc(w.rules, func(r Rule) bool {
		return r.Action != Allow && !r.Ended(w.now()) && r.parsed.reaches(at)
	})
}

// reaches reports whether s, as far as it has no pattern, leads below the path p.
func (s subject) reaches(p subject) bool {
	if len(s.names) <= len(p.names) {
		return false
	}
	for i, name := range p.names {
		if !slices.Equal(s.names[i], name) {
			return false
		}
	}
	return true
}
