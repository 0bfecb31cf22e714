package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// UntrustedError says that a project's file does not count until a person accepts it: somebody
// else could write to it, or it is not what was accepted last.
type UntrustedError struct{ Err error }

func (e *UntrustedError) Error() string {
	return "the project's policy does not count: " + e.Err.Error() + "; 'sandbox policy trust' shows the difference, and accepts it or puts back what was accepted"
}

// Unwrap returns what is wrong with the file.
func (e *UntrustedError) Unwrap() error { return e.Err }

// accepted is what a person, or this program, made of a project's file last. It lies beside it.
type accepted struct {
	Version int `json:"version"`
	// Digests are those of the file, and of the one before, which is there if the change was
	// cut short.
	Digests []string `json:"digests"`
	Rules   []Rule   `json:"rules"`
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (f File) acceptedPath() string { return strings.TrimSuffix(f.Path, ".json") + ".accepted" }

// accepted reads what was accepted last; without a file that is nothing.
func (f File) accepted() (a accepted, err error) {
	text, err := hostfs.RegularTrusted(f.acceptedPath(), 2*MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return a, err
	}
	if err = json.Unmarshal(text, &a); err != nil || a.Version != version {
		return accepted{}, fmt.Errorf("%s is damaged: %w", f.acceptedPath(), errors.Join(err, errors.New("it is of no version that is known")))
	}
	a.Rules, err = f.checked(a.Rules)
	return a, err
}

// loadAccepted is Load for a project.
func (f File) loadAccepted() ([]Rule, error) {
	a, err := f.accepted()
	if err != nil {
		return nil, &UntrustedError{err}
	}
	text, err := hostfs.RegularTrusted(f.Path, MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(a.Digests) == 0:
		return nil, nil
	case errors.Is(err, fs.ErrNotExist) && slices.Contains(a.Digests, ""):
		return nil, nil // the first change was cut short
	case err != nil:
		return nil, &UntrustedError{err}
	case !slices.Contains(a.Digests, digest(text)):
		return nil, &UntrustedError{fmt.Errorf("%s was changed by something else than 'sandbox policy'", f.Path)}
	}
	rules, err := f.parse(text)
	if err != nil {
		return nil, &UntrustedError{fmt.Errorf("%s: %w", f.Path, err)}
	}
	return rules, nil
}

// accept notes that text is about to be the project's file, in place of what is there now. first
// is set if nothing is.
func (f File) accept(text []byte, rules []Rule) (first bool, err error) {
	a := accepted{Version: version, Digests: []string{digest(text), ""}, Rules: rules}
	if now, err := hostfs.RegularTrusted(f.Path, MaxBytes); err == nil {
		a.Digests[1] = digest(now)
	}
	if a.Rules == nil {
		a.Rules = []Rule{}
	}
	out, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	return a.Digests[1] == "", f.replace(f.acceptedPath(), out)
}

// Proposal is what is in a project's file that is not trusted, beside what was accepted.
type Proposal struct {
	Accepted, Found []Rule
	// ID names what was found, to accept just this.
	ID string
	// Err says why what was found cannot be accepted.
	Err error
}

// Proposal reads a project's file, whoever can write to it, for a person to look at.
func (f File) Proposal() (p Proposal) {
	if a, err := f.accepted(); err == nil {
		p.Accepted = a.Rules
	}
	text, _, err := hostfs.ReadRegular(f.Path, MaxBytes, true)
	if errors.Is(err, fs.ErrNotExist) {
		p.ID = digest(nil)[:12]
		return p
	}
	if err == nil {
		p.ID = digest(text)[:12]
		p.Found, err = f.parse(text)
	}
	p.Err = err
	return p
}

// Accept makes what was found the project's rules, if it is still the proposal of that id. If
// restore is set, the rules that were accepted last are put back instead.
func (f File) Accept(id string, restore bool) error {
	dir := filepath.Dir(f.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	lock, err := f.lock()
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	p := f.Proposal()
	switch {
	case restore:
		return f.write(p.Accepted)
	case p.Err != nil:
		return p.Err
	case p.ID != id:
		return fmt.Errorf("the policy is another one by now: look at it again with 'sandbox policy trust'")
	}
	return f.write(p.Found)
}
