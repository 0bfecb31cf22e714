package approval

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func rule(t interface{ Fatal(...any) }, scope Scope, text string) Rule {
	words := strings.SplitN(text, " ", 3)
	r, err := Rule{Action: Action(words[0]), Operation: Operation(words[1]), Subject: words[2], Scope: scope}.Checked("/home/u")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Of two rules that differ in their time alone it is always the same one that is shown.
func TestOrderOfEqualRules(t *testing.T) {
	one := rule(t, Organisation, "allow read /**")
	other := one
	other.Until = noon.Add(time.Hour)
	for _, rules := range [][]Rule{{one, other}, {other, one}} {
		if d, err := Decide(rules, Query{Operation: Read, Path: "/a"}, noon); err != nil || !d.Rule.Until.IsZero() {
			t.Errorf("%+v, %v", d, err)
		}
	}
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		rules string // "scope: action operation subject", one a line
		query string
		want  Action
		by    Scope
	}{
		{"", "read /opt/x", None, ""},
		{"user: allow read /opt/**", "read /opt/x/y", Allow, User},
		{"user: allow read /opt/**", "read /opt", Allow, User},
		{"user: allow read /opt/*", "read /opt/x/y", None, ""},
		{"user: allow read /opt/**", "exec /opt/x", None, ""},
		{"user: allow read /opt/**\nuser: deny read /opt/secret/**", "read /opt/secret/k", Deny, User},
		{"user: deny read /opt/**\nproject: allow read /opt/sdk/**", "read /opt/sdk/a.h", Allow, Project},
		{"user: deny read /opt/**\nproject: allow read /opt/**", "read /opt/x", Deny, User},
		{"user: ask read /opt/**\nproject: allow read /opt/**", "read /opt/x", Ask, User},
		{"organisation: deny read /opt/**\nproject: allow read /opt/x", "read /opt/x", Deny, Organisation},
		{"organisation: deny read /opt/**\norganisation: allow read /opt/x", "read /opt/x", Allow, Organisation},
		{"organisation: allow read /opt/**\nsession: deny read /opt/x", "read /opt/x", Deny, Session},
		// Neither covers the other: deny wins, however long they are.
		{"user: deny read /**/.env\nproject: allow read /home/u/app/**", "read /home/u/app/.env", Deny, User},
		{"user: allow read ~/a/**", "read /home/u/a/b", Allow, User},
		{`user: deny read /a\*b`, "read /axb", None, ""},
		{`user: deny read /a\*b`, "read /a*b", Deny, User},
		{"user: allow connect *.example:443", "connect tcp/a.example:443", Allow, User},
		{"user: allow connect *.example:443", "connect a.example", None, ""},
		{"user: allow connect *.example\nuser: deny connect x.a.example", "connect x.a.example", Deny, User},
		{"user: deny connect *.example\nuser: allow connect a.example:443", "connect tcp/a.example:443", Allow, User},
		{"user: allow connect 10.0.0.0/8\nproject: deny connect 10.1.0.0/16", "connect tcp/10.1.2.3:22", Deny, Project},
		{"user: allow use ssh:**:sign:git", "use ssh:SHA256:a/b+c:sign:git", Allow, User},
		{"user: allow use ssh:**:sign:git", "use ssh:SHA256:a:sign:file", None, ""},
		{"user: allow use ssh:**:sign:git", `use ssh:SHA256:a:login:sign\x3agit`, None, ""},
		{"user: allow use ssh:*:*:login:git:**", "use ssh:SHA256:a:login:git", Allow, User},
		{"user: allow use ssh:*:*:login:git", "use ssh:SHA256:a:login:git:SHA256:h", None, ""},
		{"user: allow use ssh:**\nproject: deny use ssh:**:sign:file", "use ssh:SHA256:a:sign:file", Deny, Project},
		{"organisation: deny use ssh:**\nproject: allow use ssh:**:sign:git", "use ssh:SHA256:a:sign:git", Deny, Organisation},
	} {
		var rules []Rule
		for line := range strings.Lines(c.rules) {
			scope, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
			rules = append(rules, rule(t, Scope(scope), text))
		}
		op, subject, _ := strings.Cut(c.query, " ")
		d, err := Decide(rules, query(Operation(op), subject), noon)
		if err != nil || d.Action != c.want || d.Scope != c.by || d.Why == "" || d.Remedy == "" {
			t.Errorf("%s\n%s: %+v, %v", c.rules, c.query, d, err)
		}
	}
}

func query(op Operation, subject string) Query {
	switch op {
	case Connect:
		return Query{Operation: op, Host: subject}
	case Use:
		return Query{Operation: op, Key: subject}
	}
	return Query{Operation: op, Path: subject}
}

func TestQuestionsThatAreDenied(t *testing.T) {
	rules := []Rule{rule(t, User, "allow read /**")}
	for _, p := range []string{"", "a", "/a/../b", "/a/", "//a", "/a\x00"} {
		if d, err := Decide(rules, Query{Operation: Read, Path: p}, noon); err == nil || d.Action != Deny {
			t.Errorf("%q: %+v, %v", p, d, err)
		}
	}
}

func TestUsesThatAreNone(t *testing.T) {
	for _, subject := range []string{"", "ssh", "ssh:", "ssh::sign", "pgp:**", "*:**", "ssh:a**", `ssh:\q`, "/ssh:a", "~/ssh:a"} {
		if _, err := (Rule{Operation: Use, Subject: subject, Action: Allow, Scope: User}).Checked("/home/u"); err == nil {
			t.Errorf("%q is a subject", subject)
		}
		if d, err := Decide(nil, Query{Operation: Use, Key: subject}, noon); err == nil || d.Action != Deny {
			t.Errorf("%q: %+v, %v", subject, d, err)
		}
	}
}

func TestEnded(t *testing.T) {
	r := rule(t, User, "allow read /a")
	r.Until = noon
	for at, want := range map[time.Time]Action{noon.Add(-1): Allow, noon: None} {
		if d, err := Decide([]Rule{r}, Query{Operation: Read, Path: "/a"}, at); err != nil || d.Action != want {
			t.Errorf("%v: %+v, %v", at, d, err)
		}
	}
}

// oracle is the same, naively: what a pattern matches is found by trying all paths of a
// small world, and a pattern is more specific if the set of what it matches is smaller.
type oracle struct{ world []string }

func newOracle() oracle {
	o := oracle{world: []string{"/"}}
	for level := []string{""}; len(level[0]) < 9; {
		var next []string
		for _, dir := range level {
			for _, name := range []string{"a", "b", "ab"} {
				next = append(next, dir+"/"+name)
			}
		}
		o.world, level = append(o.world, next...), next
		if strings.Count(next[0], "/") == 4 {
			break
		}
	}
	return o
}

// matches is the textbook's matcher.
func matches(pattern, list []string) bool {
	switch {
	case len(pattern) == 0:
		return len(list) == 0
	case pattern[0] == "**":
		return matches(pattern[1:], list) || len(list) > 0 && matches(pattern, list[1:])
	}
	return len(list) > 0 && matchesName(pattern[0], list[0]) && matches(pattern[1:], list[1:])
}

func matchesName(p, s string) bool {
	switch {
	case p == "":
		return s == ""
	case p[0] == '*':
		return matchesName(p[1:], s) || s != "" && matchesName(p, s[1:])
	}
	return s != "" && p[0] == s[0] && matchesName(p[1:], s[1:])
}

func names(p string) []string {
	if p == "/" {
		return nil
	}
	return strings.Split(p[1:], "/")
}

func (o oracle) set(pattern string) map[string]bool {
	set := map[string]bool{}
	for _, p := range o.world {
		if matches(names(pattern), names(p)) {
			set[p] = true
		}
	}
	return set
}

// decide follows the package's documentation, sentence by sentence.
func (o oracle) decide(rules []Rule, path string, now time.Time) Action {
	var live []Rule
	for _, r := range rules {
		if (r.Until.IsZero() || now.Before(r.Until)) && o.set(r.Subject)[path] {
			live = append(live, r)
		}
	}
	best := func(rules []Rule) Action {
		said := map[Action]bool{}
		for _, r := range rules {
			beaten := false
			for _, other := range rules {
				if other.Subject != r.Subject && o.within(other.Subject, r.Subject) && !o.within(r.Subject, other.Subject) {
					beaten = true
				}
			}
			if !beaten {
				said[r.Action] = true
			}
		}
		for _, a := range []Action{Deny, Ask, Allow} {
			if said[a] {
				return a
			}
		}
		return None
	}
	organisation := slices.DeleteFunc(slices.Clone(live), func(r Rule) bool { return r.Scope != Organisation })
	if best(organisation) == Deny {
		return Deny
	}
	return best(live)
}

// within tells whether all that a stands for is among what b stands for.
func (o oracle) within(a, b string) bool {
	big := o.set(b)
	for p := range o.set(a) {
		if !big[p] {
			return false
		}
	}
	return true
}

// patterns are such that the small world tells them apart: containment there is containment.
var patterns = []string{"/**", "/a/**", "/a/b/**", "/a", "/a/b", "/a/b/a", "/*", "/a/*", "/a/a*", "/a/ab", "/**/b", "/b/**", "/*/b", "/a/*/b", "/ab/*b"}

func TestPrecedenceAsTheOracle(t *testing.T) {
	o := newOracle()
	rapid.Check(t, func(t *rapid.T) {
		var rules []Rule
		for i := range rapid.IntRange(0, 6).Draw(t, "rules") {
			scope := rapid.SampledFrom(Scopes()).Draw(t, fmt.Sprint("scope", i))
			action := rapid.SampledFrom([]Action{Allow, Deny, Ask}).Draw(t, fmt.Sprint("action", i))
			r := rule(t, scope, string(action)+" read "+rapid.SampledFrom(patterns).Draw(t, fmt.Sprint("subject", i)))
			if hours := rapid.IntRange(-1, 1).Draw(t, fmt.Sprint("ends", i)); hours != 0 {
				r.Until = noon.Add(time.Duration(hours) * time.Hour)
			}
			rules = append(rules, r)
		}
		path := rapid.SampledFrom(o.world).Draw(t, "path")
		d, err := Decide(rules, Query{Operation: Read, Path: path}, noon)
		if want := o.decide(rules, path, noon); err != nil || d.Action != want {
			t.Fatalf("%s: %+v, %v; the oracle says %q", path, d, err, want)
		}
		again := slices.Clone(rules)
		slices.Reverse(again)
		if e, _ := Decide(again, Query{Operation: Read, Path: path}, noon); e.Action != d.Action || e.Why != d.Why {
			t.Fatalf("the order of rules decides: %q, %q", d.Why, e.Why)
		}
	})
}

// What covers says of any two patterns must hold for whatever they match.
func TestCoversIsSound(t *testing.T) {
	o := newOracle()
	name := rapid.SampledFrom([]string{"a", "b", "ab", "*", "a*", "*b", "**"})
	pattern := rapid.Custom(func(t *rapid.T) string {
		return "/" + strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "names"), "/")
	})
	rapid.Check(t, func(t *rapid.T) {
		texts := []string{pattern.Draw(t, "a"), pattern.Draw(t, "b"), pattern.Draw(t, "c")}
		s := make([]subject, len(texts))
		for i, text := range texts {
			s[i], _ = parseSubject(Read, text)
		}
		if s[0].covers(s[1]) && !o.within(texts[1], texts[0]) {
			t.Fatalf("%s is said to cover %s", texts[0], texts[1])
		}
		if s[0].covers(s[1]) && s[1].covers(s[2]) && !s[0].covers(s[2]) {
			t.Fatalf("%q: not transitive", texts)
		}
		if !s[0].covers(s[0]) {
			t.Fatalf("%s does not cover itself", texts[0])
		}
	})
}

// A pattern of many stars takes no long time.
func TestManyStars(t *testing.T) {
	r := rule(t, User, "allow read "+strings.Repeat("/**/*a*a*a*", 300)+"/none")
	long := strings.Repeat("/"+strings.Repeat("a", 10)+"b", 300)
	if d, err := Decide([]Rule{r}, Query{Operation: Read, Path: long}, noon); err != nil || d.Action != None {
		t.Errorf("%s, %v", d.Action, err)
	}
}

func FuzzSubject(f *testing.F) {
	for _, s := range []string{"/a/**", `/a\*b`, `/\x1b[31m`, "/..", "a", "/\xff", "/a//b", `/\`, "/**/**", "/\u202e"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		r, err := Rule{Operation: Read, Action: Allow, Scope: User, Subject: pattern}.Checked("")
		if err == nil && !r.Covers(r) {
			t.Errorf("%q does not cover itself", pattern)
		}
		if !whole(path) {
			return
		}
		// Whatever bytes a path has, there is a rule about just it, and it can be shown.
		exact, err := Rule{Operation: Read, Action: Deny, Scope: User, Subject: Exactly(path)}.Checked("")
		if len(path) > 4096 {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", path, err)
		}
		if d, err := Decide([]Rule{exact}, Query{Operation: Read, Path: path}, noon); err != nil || d.Action != Deny {
			t.Errorf("%q: %+v, %v", path, d, err)
		}
		if strings.ContainsAny(exact.Subject, "\x1b\x00\r\n\u202e") {
			t.Errorf("%q is shown as %q", path, exact.Subject)
		}
	})
}

func TestFixed(t *testing.T) {
	rules := []Rule{
		rule(t, User, "deny read ~/.aws/**"), rule(t, User, `deny read /a\*b`), rule(t, User, "deny read /**/.env"), rule(t, User, "deny write /w"),
		rule(t, User, "deny connect *.bad.example"), rule(t, User, "allow connect a.example:443"),
		rule(t, User, "allow connect *.b.example"), rule(t, User, "ask connect x.b.example"),
	}
	ended := rule(t, User, "deny read /ended")
	ended.Until = noon
	timed := rule(t, User, "allow connect c.example")
	timed.Until = noon.Add(time.Hour)
	fixed := Fixed(append(rules, ended, timed), noon)
	hide, deny, allow := fixed.Hide, fixed.Deny, fixed.Allow
	if got := fmt.Sprint(hide, deny, allow); got != "[/home/u/.aws /a*b] [*.bad.example] [a.example:443]" {
		t.Error(got)
	}
}
