package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Operation is what a rule is about.
type Operation string

// The operations. Connect has a destination as its subject, Use a key of an agent and what it is used for, the others a path.
const (
	Read    Operation = "read"
	Write   Operation = "write"
	Exec    Operation = "exec"
	Connect Operation = "connect"
	Use     Operation = "use"
)

// Operations are all of them.
func Operations() []Operation { return []Operation{Read, Write, Exec, Connect, Use} }

// AllowedUse is the rule that --allow-use makes of a pattern, for a session.
func AllowedUse(pattern string) Rule {
	return Rule{Operation: Use, Subject: pattern, Action: Allow, Scope: Session, By: "--allow-use"}
}

// OfPaths reports whether the operation's subjects are paths.
func (o Operation) OfPaths() bool { return o != Connect && o != Use }

// Action is what a rule says.
type Action string

// The actions. None is the answer where no rule matches.
const (
	None  Action = ""
	Allow Action = "allow"
	Deny  Action = "deny"
	Ask   Action = "ask"
)

// Scope is where a rule stands, and for whom.
type Scope string

// The scopes, the widest first.
const (
	Organisation Scope = "organisation"
	User         Scope = "user"
	Project      Scope = "project"
	Session      Scope = "session"
	// Once is no rule's: an answer that is not remembered.
	Once Scope = "once"
)

// Scopes are those of rules, the widest first.
func Scopes() []Scope { return []Scope{Organisation, User, Project, Session} }

// ParseScope returns the scope of an answer: once, session, project or user. An empty
// text is instead.
func ParseScope(text string, instead Scope) (Scope, error) {
	switch s := Scope(text); s {
	case "":
		return instead, nil
	case Once, Session, Project, User:
		return s, nil
	}
	return "", fmt.Errorf("scope %q: use once, session, project or user", text)
}

// Rule is one rule. Make it with [Rule.Checked].
type Rule struct {
	// ID is the same for rules of one scope with the same operation and subject: the later
	// one takes the earlier one's place.
	ID        string    `json:"id"`
	Operation Operation `json:"operation"`
	// Subject is a pattern of absolute paths (see [Exactly], [Below]), or the destination
	// of a network rule.
	Subject string `json:"subject"`
	Action  Action `json:"action"`
	// Until is when it ends; zero: never.
	Until time.Time `json:"until,omitzero"`
	// At, By and Why say when, by whom and for what reason it was made.
	At  time.Time `json:"at,omitzero"`
	By  string    `json:"by,omitempty"`
	Why string    `json:"why,omitempty"`
	// Answer is the kind of the question that a person answered so; empty: nobody was asked.
	// Such a rule decides where the question would be put, and nowhere else (see [Fixed]).
	Answer string `json:"answer,omitempty"`
	// Scope is where it stands; a file does not repeat it.
	Scope Scope `json:"-"`

	parsed subject
}

// maxText bounds a subject, in bytes, and maxNote who made it and why.
const (
	maxText = 16 << 10
	maxNote = 1 << 10
)

// Checked returns the rule ready for use: its ID is set, its subject understood. A leading
// "~/" of a subject is the directory home; if that is empty, it is an error.
func (r Rule) Checked(home string) (Rule, error) {
	switch {
	case !slices.Contains(Operations(), r.Operation):
		return r, fmt.Errorf("operation %q: use read, write, exec, connect or use", r.Operation)
	case r.Action != Allow && r.Action != Deny && r.Action != Ask:
		return r, fmt.Errorf("action %q: use allow, deny or ask", r.Action)
	case !slices.Contains(Scopes(), r.Scope):
		return r, fmt.Errorf("scope %q: use organisation, user, project or session", r.Scope)
	case len(r.Subject) > maxText:
		return r, fmt.Errorf("a subject of %d bytes: %d are allowed", len(r.Subject), maxText)
	case len(r.By) > maxNote || len(r.Why) > maxNote || len(r.Answer) > maxNote:
		return r, fmt.Errorf("the note of who made it, or why, has more than %d bytes", maxNote)
	case !utf8.ValidString(r.Subject) || !utf8.ValidString(r.By) || !utf8.ValidString(r.Answer) || !utf8.ValidString(r.Why):
		return r, fmt.Errorf("subject %q, or a note, is no UTF-8: write such a byte as \\xNN", r.Subject)
	}
	if rest, ok := strings.CutPrefix(r.Subject, "~/"); ok && r.Operation.OfPaths() {
		if home == "" {
			return r, fmt.Errorf("subject %q: there is no home directory here", r.Subject)
		}
		r.Subject = strings.TrimSuffix(Exactly(home), "/") + "/" + rest
	}
	var err error
	if r.parsed, err = parseSubject(r.Operation, r.Subject); err != nil {
		return r, err
	}
	r.ID = ruleID(r)
	return r, nil
}

func ruleID(r Rule) string {
	sum := sha256.Sum256([]byte(string(r.Scope) + "\x00" + string(r.Operation) + "\x00" + r.Subject))
	return "r-" + hex.EncodeToString(sum[:5])
}

// Ended reports whether its time is over.
func (r Rule) Ended(now time.Time) bool { return !r.Until.IsZero() && !r.Until.After(now) }

// String is the rule in words: "deny read /opt/x/**".
func (r Rule) String() string {
	return fmt.Sprintf("%s %s %s", r.Action, r.Operation, r.Subject)
}

// Covers reports whether the rule is about everything that the other one is about.
func (r Rule) Covers(o Rule) bool { return r.Operation == o.Operation && r.parsed.covers(o.parsed) }
