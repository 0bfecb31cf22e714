package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Places says where rules are.
type Places struct {
	Organisation string // a file; empty: there is none
	User         string // a file; empty: there is none
	State        string // the state directory; empty: a project has no rules
	Project      string // the working folder's path, clean and absolute; empty: none
	Home         string // for "~" in rules
}

// Standard is where rules are on this machine, for a project, given the state directory.
func Standard(state, project string) Places {
	p := Places{Organisation: OrganisationFile, State: state, Project: project}
	if dir, err := os.UserConfigDir(); err == nil {
		p.User = filepath.Join(dir, "codeagent", "policy.json")
	}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		p.Home = filepath.Clean(home)
	}
	return p
}

// File is the file of a scope. The project's is in the state directory, by the folder.
func (p Places) File(s Scope) File {
	f := File{Scope: s, Home: p.Home}
	switch s {
	case Organisation:
		f.Path = p.Organisation
	case User:
		f.Path = p.User
	case Project:
		if p.State != "" && p.Project != "" {
			sum := sha256.Sum256([]byte(p.Project))
			f.Path, f.Project = filepath.Join(p.State, "policy", hex.EncodeToString(sum[:8])+".json"), p.Project
		}
	}
	return f
}

// Book is the policy of a session, or of a program that asks for one. Its methods are safe
// for concurrent use. Make it with [NewBook].
type Book struct {
	now   func() time.Time
	home  string
	files []File

	mu      sync.Mutex
	read    []reading // of files
	session []Rule
	// untrusted is what is wrong with the project's file, which does not count then.
	untrusted error
}

// reading is what a file held when it was last read.
type reading struct {
	stat  fs.FileInfo // nil: there was no file
	known bool
	rules []Rule
	err   error
}

// NewBook makes the book of these places; nothing is read yet.
func NewBook(p Places, now func() time.Time) *Book {
	b := &Book{now: now, home: p.Home}
	for _, s := range []Scope{Organisation, User, Project} {
		if f := p.File(s); f.Path != "" {
			b.files = append(b.files, f)
		}
	}
	b.read = make([]reading, len(b.files))
	return b
}

// refresh reads the files that have changed. The caller locks.
func (b *Book) refresh() (rules []Rule, broken error, forbids bool) {
	b.untrusted = nil
	for i, f := range b.files {
		r := &b.read[i]
		st, err := os.Lstat(f.Path)
		if err != nil {
			st = nil
		}
		// A file with an error is read again each time: what was wrong may be its owner.
		if !r.known || r.err != nil || !unchanged(r.stat, st) {
			r.rules, r.err = f.Load()
			r.stat, r.known = st, true
		}
		if untrusted := (*UntrustedError)(nil); errors.As(r.err, &untrusted) {
			b.untrusted = r.err
			continue
		}
		if r.err != nil && !forbids {
			broken, forbids = r.err, f.Scope == Organisation
		}
		rules = append(rules, r.rules...)
	}
	return append(rules, b.session...), broken, forbids
}

func unchanged(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}

// Decide answers the question by all rules. If a file cannot be trusted, nothing is
// allowed by the others: it is asked, or denied if the file is the organisation's.
func (b *Book) Decide(q Query) Decision {
	b.mu.Lock()
	rules, broken, forbids := b.refresh()
	b.mu.Unlock()
	d, _ := Decide(rules, q, b.now()) // an error's decision is to deny
	if broken == nil || d.Action == Deny {
		return d
	}
	d = Decision{Action: Ask, Why: "a policy cannot be trusted, so nothing is allowed by one: " + broken.Error(), Remedy: "sandbox policy check"}
	if forbids {
		d.Action = Deny
	}
	return d
}

// Untrusted returns what is wrong with the project's file, if it does not count: an
// [*UntrustedError], or nil.
func (b *Book) Untrusted() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _, _ = b.refresh()
	return b.untrusted
}

// Remember keeps the rule in its scope; the organisation's are not made here. The rule is
// returned as it was kept.
func (b *Book) Remember(r Rule) (Rule, error) {
	now := b.now()
	if r.At.IsZero() {
		r.At = now.UTC().Truncate(time.Second)
	}
	r, err := r.Checked(b.home)
	if err != nil {
		return r, err
	}
	if r.Scope == Session {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.session) >= maxRules {
			return r, fmt.Errorf("the session has %d rules: remember it for the project instead", len(b.session))
		}
		b.session = put(b.session, r)
		return r, nil
	}
	for _, f := range b.files {
		if f.Scope == r.Scope && f.Scope != Organisation {
			return r, f.Put(now, r)
		}
	}
	return r, fmt.Errorf("a rule cannot be kept for the %s here", r.Scope)
}

// Forget takes a rule back that [Book.Remember] returned. A rule that has taken its place since
// stays, and is an error; that it is gone already is none.
func (b *Book) Forget(r Rule) error {
	without := func(rules []Rule) ([]Rule, error) {
		i := slices.IndexFunc(rules, func(o Rule) bool { return o.ID == r.ID })
		switch {
		case i < 0:
			return rules, nil
		case rules[i].Action != r.Action || !rules[i].At.Equal(r.At) || rules[i].Answer != r.Answer || !rules[i].Until.Equal(r.Until):
			return nil, fmt.Errorf("the rule %s was changed since: 'sandbox policy remove %s' removes it", r.ID, r.ID)
		}
		return slices.Delete(slices.Clone(rules), i, i+1), nil
	}
	if r.Scope == Session {
		b.mu.Lock()
		defer b.mu.Unlock()
		left, err := without(b.session)
		if err == nil {
			b.session = left
		}
		return err
	}
	for _, f := range b.files {
		if f.Scope == r.Scope && f.Scope != Organisation {
			return f.Update(b.now(), without)
		}
	}
	return nil
}

// Rules returns the rules of all scopes whose time is not over, the organisation's first. The
// error is about a file that cannot be trusted; the rules of the others are there.
func (b *Book) Rules() ([]Rule, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, err, _ := b.refresh()
	rules := make([]Rule, 0, len(all))
	for _, r := range all {
		if !r.Ended(b.now()) {
			rules = append(rules, r)
		}
	}
	return rules, err
}
