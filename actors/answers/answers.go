package answers

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// maxBytes is more than an answer takes.
	maxBytes = 16 << 10
	// maxAnswers bounds a store.
	maxAnswers = 10_000
	suffix     = ".json"
)

// Scope is for how long, and where, an answer stands.
type Scope string

// The scopes. A store keeps the last two; an empty scope means Session.
const (
	Once    Scope = "once"    // for this question; the next one like it is asked again
	Session Scope = "session" // until the session ends
	Project Scope = "project" // in this working folder
	User    Scope = "user"    // in every session of the user's
)

// ParseScope returns the scope of that name; "" is [Session].
func ParseScope(s string) (Scope, error) {
	switch c := Scope(s); c {
	case Once, Session, Project, User:
		return c, nil
	case "":
		return Session, nil
	}
	return "", fmt.Errorf("scope %q: use once, session, project or user", s)
}

// Kept tells whether answers of the scope outlive the session.
func (s Scope) Kept() bool { return s == Project || s == User }

// Answer is one that is kept.
type Answer struct {
	// Kind is the question's, as the protocol spells it.
	Kind string `json:"kind"`
	// Subject is equal for questions that are answered together.
	Subject string `json:"subject"`
	Allow   bool   `json:"allow"`
	// Project is the working folder's path; empty: for everything of the user's.
	Project string    `json:"project,omitempty"`
	At      time.Time `json:"at"`
	By      string    `json:"by,omitempty"`
}

// Scope returns where the answer stands.
func (a Answer) Scope() Scope {
	if a.Project != "" {
		return Project
	}
	return User
}

// ID names the answer in its store: 16 hexadecimal digits.
func (a Answer) ID() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{a.Kind, a.Project, a.Subject}, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// Store is a directory of answers, which need not exist. Its methods are safe for
// concurrent use, by several processes as well.
type Store struct{ Dir string }

// Find returns the answer to a question in a project: the project's own, else the user's.
// A file that cannot be read or understood is an error, and no answer.
func (s Store) Find(kind, subject, project string) (a Answer, ok bool, err error) {
	for _, p := range slices.Compact([]string{project, ""}) {
		want := Answer{Kind: kind, Subject: subject, Project: p}
		a, err := s.read(want.ID() + suffix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return Answer{}, false, err
		case a.Kind == kind && a.Subject == subject && a.Project == p:
			return a, true, nil
		}
	}
	return Answer{}, false, nil
}

// Keep keeps an answer in place of the one before it.
func (s Store) Keep(a Answer) error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	if len(entries) >= maxAnswers {
		return fmt.Errorf("%s holds %d answers: remove some with 'sandbox answers rm'", s.Dir, len(entries))
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if len(text) > maxBytes {
		return fmt.Errorf("an answer of %d bytes is not kept", len(text))
	}
	f, err := os.CreateTemp(s.Dir, "new-")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.Dir, a.ID()+suffix))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// List returns all answers, the user's first, then by project and subject. Files that are
// no answers are left out, and told in the error.
func (s Store) List() (list []Answer, err error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		a, rerr := s.read(e.Name())
		switch {
		case errors.Is(rerr, fs.ErrNotExist): // removed meanwhile
		case rerr != nil:
			err = errors.Join(err, rerr)
		case a.ID()+suffix == e.Name():
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b Answer) int {
		return cmp.Or(strings.Compare(a.Project, b.Project), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Subject, b.Subject))
	})
	return list, err
}

// Remove forgets an answer; the error wraps [fs.ErrNotExist] if there is none.
func (s Store) Remove(id string) error {
	if b, err := hex.DecodeString(id); err != nil || len(b) != 8 {
		return fmt.Errorf("%q is not the id of an answer; 'sandbox answers' lists them", id)
	}
	return os.Remove(filepath.Join(s.Dir, id+suffix))
}

func (s Store) read(name string) (Answer, error) {
	path := filepath.Join(s.Dir, name)
	if st, err := os.Lstat(path); err != nil {
		return Answer{}, err
	} else if !st.Mode().IsRegular() {
		return Answer{}, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return Answer{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return Answer{}, err
	}
	a, err := parse(text)
	if err != nil {
		return Answer{}, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

func parse(text []byte) (a Answer, err error) {
	if len(text) > maxBytes {
		return a, fmt.Errorf("more than %d bytes", maxBytes)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return Answer{}, err
	}
	if a.Kind == "" || a.Subject == "" {
		return Answer{}, errors.New("no answer: it has no kind, or no subject")
	}
	return a, nil
}
