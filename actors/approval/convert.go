package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Before version 2 of the program, answers about the network were files of their own in
// this directory of the state directory.
const (
	oldAnswers   = "answers"
	maxOldAnswer = 16 << 10
)

type oldAnswer struct {
	Kind    string    `json:"kind"`
	Subject string    `json:"subject"`
	Allow   bool      `json:"allow"`
	Project string    `json:"project,omitempty"`
	At      time.Time `json:"at"`
	By      string    `json:"by,omitempty"`
}

// Convert makes rules of the answers that an older program kept in files of their own, and
// removes these files. A rule that is there already stays. What cannot be converted stays, too:
// the error names it and says what to do.
func (p Places) Convert(now time.Time) (converted int, err error) {
	if p.State == "" {
		return 0, nil
	}
	dir := filepath.Join(p.State, oldAnswers)
	entries, rerr := os.ReadDir(dir)
	if errors.Is(rerr, fs.ErrNotExist) {
		return 0, nil
	}
	err = rerr
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		if cerr := p.convert(path, now); errors.Is(cerr, fs.ErrNotExist) {
			continue // another process has converted it
		} else if cerr != nil {
			err = errors.Join(err, fmt.Errorf("an answer of an older version is not used: %w; remove %s, and answer again when you are asked", cerr, path))
			continue
		}
		converted++
	}
	if err == nil {
		_ = os.Remove(dir) // it stays if something else is in it
	}
	return converted, err
}

func (p Places) convert(path string, now time.Time) error {
	text, err := hostfs.RegularTrusted(path, maxOldAnswer)
	if err != nil {
		return err
	}
	var a oldAnswer
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return err
	}
	r, err := a.rule()
	if err != nil {
		return err
	}
	p.Project = a.Project
	f := p.File(r.Scope)
	err = f.Update(now, func(rules []Rule) ([]Rule, error) {
		checked, err := r.Checked(f.Home)
		if err != nil {
			return nil, err
		}
		for _, o := range rules {
			if o.ID == checked.ID {
				return rules, nil
			}
		}
		return append(rules, checked), nil
	})
	if err != nil {
		return err
	}
	return os.Remove(path)
}

// rule is what the answer says, as a rule.
func (a oldAnswer) rule() (Rule, error) {
	r := Rule{Operation: Connect, Action: Deny, Scope: User, At: a.At, By: a.By, Answer: a.Kind}
	if a.Allow {
		r.Action = Allow
	}
	if a.Project != "" {
		r.Scope = Project
	}
	how, what, ok := strings.Cut(a.Subject, " ")
	if a.Kind != "network" || !ok {
		return r, fmt.Errorf("%q is no answer about the network", a.Kind+": "+a.Subject)
	}
	switch how {
	case "lookup":
		r.Subject = what
	case "icmp":
		r.Subject = "icmp/" + strings.TrimSuffix(what, ":0")
	default:
		r.Subject = how + "/" + what
	}
	return r, nil
}
