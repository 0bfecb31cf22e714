package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/inherit"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Profile is what an agent needs. Paths are absolute, or begin with ~/.
type Profile struct {
	Description string `toml:"description" json:"description"`
	// Write are files and directories of its own, which it writes as they are. One with a
	// slash at its end is made if it is missing; another is left out then.
	Write []string `toml:"write" json:"write"`
	// Hosts are rules of what it may reach.
	Hosts []string `toml:"hosts" json:"hosts"`
	// Env are variables that it gets although they hold credentials.
	Env []string `toml:"env" json:"env"`
	// Credentials are files in what it writes that are hidden from everybody else.
	Credentials []string `toml:"credentials" json:"credentials"`
}

// maxBytes bounds a profile's file.
const maxBytes = 64 << 10

// ProfileSource is where profiles come from.
type ProfileSource struct {
	// Dirs have files NAME.toml; the first that has one counts.
	Dirs []string
	// Home is the user's.
	Home string
}

// ProfilesHere is this user's source.
func ProfilesHere() (ProfileSource, error) {
	s := ProfileSource{}
	config, err := os.UserConfigDir()
	if err == nil {
		s.Dirs = append(s.Dirs, filepath.Join(config, "codeagent", "profiles"))
	}
	s.Dirs = append(s.Dirs, "/etc/codeagent/profiles")
	s.Home, err = os.UserHomeDir()
	return s, err
}

// File is where the user's own profile of that name is.
func (s ProfileSource) File(name string) string { return filepath.Join(s.Dirs[0], name+".toml") }

// FoundProfile is a profile with where it was found: a file, or empty if it is built in.
type FoundProfile struct {
	Name    string  `json:"name"`
	File    string  `json:"file,omitempty"`
	Profile Profile `json:"profile"`
	Text    string  `json:"-"`
}

// CheckProfileName refuses what cannot be a profile's name.
func CheckProfileName(name string) error {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	if name == "" || len(name) > 64 || name[0] == '.' || name[0] == '-' || strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune(plain, r) }) {
		return fmt.Errorf("%q cannot be a profile's name: use letters, digits, '.', '_' and '-'", name)
	}
	return nil
}

// Find reads and checks a profile.
func (s ProfileSource) Find(name string) (FoundProfile, error) {
	if err := CheckProfileName(name); err != nil {
		return FoundProfile{}, err
	}
	for _, dir := range s.Dirs {
		file := filepath.Join(dir, name+".toml")
		text, _, err := hostfs.ReadRegular(file, maxBytes, true)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return FoundProfile{}, fmt.Errorf("profile %s: %w", name, err)
		}
		p, err := s.Parse(text)
		if err != nil {
			return FoundProfile{}, fmt.Errorf("profile %s: %s: %w", name, file, err)
		}
		return FoundProfile{name, file, p, string(text)}, nil
	}
	text, ok := builtin()[name]
	if !ok {
		names, _ := s.Names()
		return FoundProfile{}, fmt.Errorf("there is no profile %q; there are %s, and 'sandbox profile new' makes one", name, strings.Join(names, ", "))
	}
	p, err := s.Parse([]byte(text))
	if err != nil {
		return FoundProfile{}, fmt.Errorf("profile %s: %w", name, err)
	}
	return FoundProfile{Name: name, Profile: p, Text: text}, nil
}

// Names are those of all profiles, in order. An error is about a directory; the names of
// the others are there all the same.
func (s ProfileSource) Names() (names []string, err error) {
	for name := range builtin() {
		names = append(names, name)
	}
	for _, dir := range s.Dirs {
		entries, e := os.ReadDir(dir)
		if e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
		for _, entry := range entries {
			if name, ok := strings.CutSuffix(entry.Name(), ".toml"); ok && CheckProfileName(name) == nil {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// Parse reads a profile and checks it. A key that is not known is an error.
func (s ProfileSource) Parse(text []byte) (p Profile, err error) {
	var over *hostfs.OverBoundsError
	if err := hostfs.RegularSettings().Check(text); errors.As(err, &over) && over.Line > 0 {
		return p, fmt.Errorf("line %d: %w", over.Line, err)
	} else if err != nil {
		return p, err
	}
	d := toml.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		var strict *toml.StrictMissingError
		var bad *toml.DecodeError
		switch {
		case errors.As(err, &strict) && len(strict.Errors) > 0:
			row, _ := strict.Errors[0].Position()
			return p, fmt.Errorf("line %d: unknown key %q; there are description, write, hosts, env and credentials", row, strings.Join(strict.Errors[0].Key(), "."))
		case errors.As(err, &bad):
			row, col := bad.Position()
			return p, fmt.Errorf("line %d, column %d: %s", row, col, strings.TrimPrefix(bad.Error(), "toml: "))
		}
		return p, err
	}
	var errs []error
	for _, w := range p.Write {
		errs = append(errs, s.checkWrite(w))
	}
	for _, c := range p.Credentials {
		errs = append(errs, s.checkCredential(c, p.Write))
	}
	if _, err := policy.ParseRules(p.Hosts); err != nil {
		errs = append(errs, fmt.Errorf("hosts: %w", err))
	}
	for _, name := range p.Env {
		errs = append(errs, checkVariable(name))
	}
	for _, list := range []*[]string{&p.Write, &p.Hosts, &p.Env, &p.Credentials} {
		*list = append([]string{}, *list...)
	}
	return p, errors.Join(errs...)
}

// Path makes a path of a profile absolute and clean.
func (s ProfileSource) Path(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(s.Home, rest), nil
	}
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("%q is not absolute and does not begin with ~/", path)
	}
	return filepath.Clean(path), nil
}

// checkWrite refuses all but what lies below the home directory and is no secret.
func (s ProfileSource) checkWrite(path string) error {
	at, err := s.Path(path)
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if resolved(at) == "" {
		return fmt.Errorf("write: a symlink on the way to %s leads nowhere", path)
	}
	for _, at := range []string{at, resolved(at)} {
		for _, home := range []string{s.Home, resolved(s.Home)} {
			if lexical.Within(home, at) {
				return fmt.Errorf("write: %s is the home directory, or has it in it: name what the agent owns", path)
			}
		}
		if !lexical.Within(at, s.Home) && !lexical.Within(at, resolved(s.Home)) {
			return fmt.Errorf("write: %s is not below your home directory; --rw lets a command write there", path)
		}
		for _, secret := range hypervisor.HomeSecrets() {
			secret := filepath.Join(s.Home, secret)
			if hypervisor.AgentSecret(s.Home, secret) && !lexical.Within(at, secret) {
				continue // hidden in it from those who do not own it
			}
			if lexical.Within(at, secret) || lexical.Within(secret, at) {
				return fmt.Errorf("write: %s is, has or lies in a known secret, %s", path, secret)
			}
		}
	}
	return nil
}

// checkCredential refuses a secret that is none of the agent's own.
func (s ProfileSource) checkCredential(path string, write []string) error {
	at, err := s.Path(path)
	if err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	for _, w := range write {
		if own, err := s.Path(w); err == nil && lexical.Within(at, own) && lexical.Within(resolved(at), resolved(own)) {
			return nil
		}
	}
	return fmt.Errorf("credentials: %s does not lie in what the profile writes, so it is somebody else's; --show shows it all the same", path)
}

func checkVariable(name string) error {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
	if name == "" || name[0] >= '0' && name[0] <= '9' || strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune(plain, r) }) {
		return fmt.Errorf("env: %q is no variable's name", name)
	}
	if inherit.VariablesKeptOutside(name) {
		return fmt.Errorf("env: %s leads to programs outside, and no command gets it", name)
	}
	return nil
}

// Places are what a session gets: the paths that are there, after what is to be made was
// made. folders are the session's; none may lie in what the profile writes, nor the other way
// round, because what is written there could be undone in one way and not in the other.
func (s ProfileSource) Places(p Profile, folders []string) (write, show []string, err error) {
	for _, w := range p.Write {
		at, err := s.Path(w)
		if err != nil {
			return nil, nil, err
		}
		for _, f := range folders {
			if lexical.Within(f, resolved(at)) || lexical.Within(resolved(at), f) {
				return nil, nil, fmt.Errorf("the profile writes %s, and the working folder %s lies in it, or has it in it: work in another folder, or without the profile", w, f)
			}
		}
		if strings.HasSuffix(w, "/") {
			if err := os.MkdirAll(at, 0o700); err != nil {
				return nil, nil, err
			}
		}
		if _, err := os.Stat(at); err == nil {
			write = append(write, at)
		}
	}
	for _, c := range p.Credentials {
		at, err := s.Path(c)
		if err != nil {
			return nil, nil, err
		}
		show = append(show, at)
		if moved := hypervisor.MovedAgentSecret(os.Getenv, s.Home, at); moved != "" {
			show = append(show, moved)
		}
	}
	return write, show, nil
}

// resolved is a path with the symlinks resolved of what there is of it; empty if one of them
// leads nowhere.
func resolved(path string) string {
	for at, rest := path, ""; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		if _, err := os.Lstat(at); err == nil {
			return ""
		}
		if filepath.Dir(at) == at {
			return path
		}
	}
}
