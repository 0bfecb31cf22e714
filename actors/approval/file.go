package approval

import (
	"bytes"
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

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// OrganisationFile is where an organisation keeps its rules.
const OrganisationFile = "/etc/codeagent/policy.json"

const (
	// MaxBytes bounds a file.
	MaxBytes = 4 << 20
	maxRules = 10_000 // in a file
	version  = 1
)

// File keeps the rules of one scope. It is believed only if it is a regular file, and no
// symlink, of at most 4 MiB, which belongs to this user or to root and which nobody else
// can write to; the same goes for its directory. The file need not exist. Several
// processes may use it at the same time.
type File struct {
	Path  string
	Scope Scope
	// Project is the folder that it is for; empty if the scope is another one.
	Project string
	// Home stands for "~" in subjects.
	Home string
}

// document is what is in a file.
type document struct {
	Version int    `json:"version"`
	Project string `json:"project,omitempty"`
	Rules   []Rule `json:"rules"`
}

// Load returns the rules, in the order of the file. Without a file there are none. An error
// names the file and says what to do; then there are no rules. Of a project's file it is an [*UntrustedError].
func (f File) Load() ([]Rule, error) {
	if f.Scope == Project && f.Path != "" {
		return f.loadAccepted()
	}
	text, err := hostfs.RegularTrusted(f.Path, MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rules, err := f.parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; mend it or move it away", f.Path, err)
	}
	return rules, nil
}

func (f File) parse(text []byte) ([]Rule, error) {
	var d document
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind the policy")
	}
	switch {
	case d.Version != version:
		return nil, fmt.Errorf("version %d of a policy: this program reads version %d", d.Version, version)
	case d.Project != f.Project:
		return nil, fmt.Errorf("it is the policy of %q", d.Project)
	}
	return f.checked(d.Rules)
}

// checked returns the rules ready for use in the file's scope.
func (f File) checked(rules []Rule) ([]Rule, error) {
	if len(rules) > maxRules {
		return nil, fmt.Errorf("%d rules: %d are allowed", len(rules), maxRules)
	}
	for i, r := range rules {
		r.Scope = f.Scope
		var err error
		if rules[i], err = r.Checked(f.Home); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	return rules, nil
}

// Update replaces the rules by what change makes of them, under a lock, as one rename: a
// reader sees all or nothing of it, and so does a crash. Rules whose time is over go out.
// A file that cannot be read is an error and stays as it is.
func (f File) Update(now time.Time, change func([]Rule) ([]Rule, error)) error {
	if f.Path == "" {
		return fmt.Errorf("there is no place for the %s's rules: no home directory", f.Scope)
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	lock, err := f.lock()
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	rules, err := f.Load()
	if err != nil {
		return err
	}
	rules = slices.DeleteFunc(rules, func(r Rule) bool { return r.Ended(now) })
	if rules, err = change(rules); err != nil {
		return err
	}
	return f.write(rules)
}

// lock waits until no other process changes the file.
func (f File) lock() (*hostfs.FileLock, error) { return hostfs.LockFile(f.Path+".lock", true) }

// write replaces the file. The caller has the lock.
func (f File) write(rules []Rule) error {
	rules, err := f.checked(rules)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(document{Version: version, Project: f.Project, Rules: rules}, "", "  ")
	if err != nil {
		return err
	}
	if len(text) >= MaxBytes {
		return fmt.Errorf("the policy would have %d MiB, more than %d: remove rules first", len(text)>>20, MaxBytes>>20)
	}
	text = append(text, '\n')
	first := false
	if f.Scope == Project {
		first, err = f.accept(text, rules)
	}
	if err == nil {
		err = f.replace(f.Path, text)
	}
	if first && err == nil { // from now on it is missed if it is not there
		_, err = f.accept(text, rules)
	}
	if err != nil {
		return fmt.Errorf("%s was not changed: %w", f.Path, err)
	}
	return nil
}

// Put adds the rule in the place of one with its operation and subject.
func (f File) Put(now time.Time, r Rule) error {
	r.Scope = f.Scope
	r, err := r.Checked(f.Home)
	if err != nil {
		return err
	}
	return f.Update(now, func(rules []Rule) ([]Rule, error) { return put(rules, r), nil })
}

func put(rules []Rule, r Rule) []Rule {
	rules = slices.DeleteFunc(slices.Clone(rules), func(o Rule) bool { return o.ID == r.ID })
	return append(rules, r)
}

// ErrNoRule is wrapped by the error of who removes a rule that is not there.
var ErrNoRule = errors.New("no such rule")

// Remove takes the rule of that id out.
func (f File) Remove(now time.Time, id string) error {
	return f.Update(now, func(rules []Rule) ([]Rule, error) {
		left := slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.ID == id })
		if len(left) == len(rules) {
			return nil, fmt.Errorf("%w as %s", ErrNoRule, id)
		}
		return left, nil
	})
}

// replace writes a file anew and has it on the disk before it returns.
func (f File) replace(path string, text []byte) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, ".policy-") // mode 0600
	if err != nil {
		return err
	}
	if f.Scope == Organisation { // every user reads it
		err = tmp.Chmod(0o644)
	}
	if err == nil {
		_, err = tmp.Write(text)
	}
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return syncDir(dir)
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	root, err := hostfs.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(hostfs.SyncFD(root.FD()), root.Close())
}

// Import parses rules that were exported, from a file of any scope, for this one.
func (f File) Import(text []byte) ([]Rule, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("more than %d MiB", MaxBytes>>20)
	}
	plain := f
	var d struct {
		Project string `json:"project"`
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	plain.Project = d.Project
	return plain.parse(text)
}

// Export writes rules as [File.Import] reads them.
func Export(w io.Writer, rules []Rule) error {
	text, err := json.MarshalIndent(document{Version: version, Rules: append([]Rule{}, rules...)}, "", "  ")
	if err == nil {
		_, err = io.Copy(w, strings.NewReader(string(text)+"\n"))
	}
	return err
}
