package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/stamp"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Level is where a value comes from; a later one wins.
type Level int

// The levels.
const (
	FromDefault Level = iota
	Organisation
	User
	Project
	Flag
	Request
)

func (l Level) String() string {
	return [...]string{"default", "organisation", "user", "project", "flag", "request"}[l]
}

// FileName is what the file is called at every level.
const FileName = "codeagent.toml"

// Origin says what set a value.
type Origin struct {
	Level Level
	File  string // of a file
	Line  int
	Flag  string // of a flag, without the dashes
}

// String is "default", "FILE:LINE" or "--flag".
func (o Origin) String() string {
	switch {
	case o.Flag != "":
		return "--" + o.Flag
	case o.File != "":
		return o.File + ":" + strconv.Itoa(o.Line)
	}
	return o.Level.String()
}

// Set is the configuration with the origin of every value.
type Set struct {
	Config
	keys    []Key
	origins map[string][]Origin
	locks   map[string]Origin
	user    string // where the user's own file is: for advice

	stamps  []string // of the files; see [Set.Stamps]
	callers bool     // a file is about who joins a session, or may be changing
}

// Sources are the files outside of the working folder.
type Sources struct {
	// Organisation and User need not be there.
	Organisation, User string
	// Named, if it is not empty, is read instead of User and must be there. No
	// project's file is read beside it.
	Named string
}

// Places returns where the organisation's and the user's file are here. User is
// empty when this user has no configuration directory.
func Places() Sources {
	s := Sources{Organisation: "/etc/codeagent/" + FileName}
	if dir, err := os.UserConfigDir(); err == nil {
		s.User = filepath.Join(dir, "codeagent", FileName)
	}
	return s
}

// New is the defaults.
func New() *Set {
	return &Set{Config: Default(), keys: Keys(), origins: map[string][]Origin{}, locks: map[string]Origin{}}
}

// AdviseOn names the user's own file to those whose project's file is refused.
func (s *Set) AdviseOn(user string) { s.user = user }

// Load reads the organisation's and the user's file. Errors name every mistake.
func Load(from Sources) (*Set, error) {
	s := New()
	s.user = from.User
	if err := s.add(from.Organisation, Organisation); err != nil && !missing(err) {
		return nil, err
	}
	user := from.User
	if from.Named != "" {
		user = from.Named
	}
	if user == "" {
		return s, nil
	}
	if err := s.add(user, User); err != nil && (!missing(err) || from.Named != "") {
		return nil, err
	}
	return s, nil
}

// AddProject reads the file in the working folder, if there is one. It is
// written by whoever can write there: see [Rule]. After an error s is as before.
func (s *Set) AddProject(dir string) error {
	err := s.add(filepath.Join(dir, FileName), Project)
	// A folder that cannot be looked into has no file for us; who opens it says so.
	if look := (*fs.PathError)(nil); missing(err) || errors.As(err, &look) && look.Op == "lstat" && errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// Check reads one file as if it were of that level, over s.
func (s *Set) Check(file string, level Level) error { return s.add(file, level) }

// CheckText is Check for a text that is to be that file's.
func (s *Set) CheckText(file string, text []byte, level Level) error {
	return s.addText(file, text, level)
}

// add puts a file over what is there; all of it, or nothing of it.
func (s *Set) add(file string, level Level) error {
	b, info, err := hostfs.ReadRegular(file, int64(hostfs.RegularSettings().Bytes), level != Project)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if err := s.addText(file, b, level); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	s.stamp(file, info, level)
	return nil
}

// stamp notes what was read.
func (s *Set) stamp(file string, info fs.FileInfo, level Level) {
	if level == Project { // who joins looks for it by its real path
		dir, err := filepath.Abs(filepath.Dir(file))
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir)
		}
		s.callers = s.callers || err != nil
		file = filepath.Join(dir, filepath.Base(file))
	}
	s.callers = s.callers || !stamp.Settled(info, time.Now())
	s.stamps = append(slices.Clone(s.stamps), stamp.Of(info)+" "+file)
}

// Stamps says of each file that was read what it was ([stamp.Of]), a space and its path, if none of them is about
// the commands of callers who join a session: then to read the files again, with nothing else, changes nothing for such a caller.
func (s *Set) Stamps() []string {
	if s.callers {
		return nil
	}
	return s.stamps
}

func (s *Set) addText(file string, b []byte, level Level) error {
	entries, err := parse(s.keys, file, b)
	if err != nil {
		return err
	}
	next := s.Clone()
	var errs []error
	for _, e := range entries {
		from := Origin{Level: level, File: file, Line: e.line}
		if err := next.put(e, from); err != nil {
			errs = append(errs, &Mistake{File: file, Line: e.line, Err: err})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	*s = *next
	return nil
}

// put sets one key from a file.
func (s *Set) put(e entry, from Origin) error {
	k := find(s.keys, e.name)
	if k == nil {
		return s.unknown(e.name)
	}
	if k.only != 0 && from.Level != k.only {
		return fmt.Errorf("%s: only the %s's file may set this", k.Name, k.only)
	}
	if from.Level == Project && k.Rule == Never {
		return fmt.Errorf("%s: %s", k.Name, s.refusal(k, "a project's own file may not set this"))
	}
	next := s.Config
	if err := assign(k.field(&next), e.value); err != nil {
		return fmt.Errorf("%s: %w", k.Name, err)
	}
	return s.set(k, next, from)
}

// SetFlag sets a key from its flag's values, of which a list has any number and
// is added to, and anything else the last.
func (s *Set) SetFlag(flag string, values []string) error { return s.SetFor(flag, values, flag) }

// SetFor is SetFlag for what another flag implies, which the key's origin then is.
func (s *Set) SetFor(flag string, values []string, by string) error {
	i := slices.IndexFunc(s.keys, func(k Key) bool { return k.Flag == flag })
	if i < 0 || len(values) == 0 {
		return fmt.Errorf("--%s sets no key", flag)
	}
	k, next := &s.keys[i], s.Config
	if err := assignText(k.field(&next), values); err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	if err := s.set(k, next, Origin{Level: Flag, Flag: by}); err != nil {
		return fmt.Errorf("--%s: %w", by, err)
	}
	return nil
}

// SetRequest sets a key to a value as the TOML decoder would give it, for a
// frontend's request. Only locks limit it.
func (s *Set) SetRequest(key string, value any) error {
	k := find(s.keys, key)
	if k == nil {
		return s.unknown(key)
	}
	next := s.Config
	if err := assign(k.field(&next), value); err != nil {
		return fmt.Errorf("%s: %w", k.Name, err)
	}
	return s.set(k, next, Origin{Level: Request})
}

// assignText puts a flag's values into a field.
func assignText(field any, values []string) error {
	last := values[len(values)-1]
	switch f := field.(type) {
	case *string:
		*f = last
	case *[]string:
		*f = slices.Clone(values)
	case *bool:
		b, err := strconv.ParseBool(last)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", last)
		}
		*f = b
	case *int:
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", last)
		}
		return assign(f, n)
	default:
		return assign(f, last)
	}
	return nil
}

// set takes the value of k from next, if the locks and the project's rule allow
// it.
func (s *Set) set(k *Key, next Config, from Origin) error {
	if err := k.check(&next); err != nil {
		return fmt.Errorf("%s: %w", k.Name, err)
	}
	have, want := k.field(&s.Config), k.field(&next)
	if err := s.expand(k, want, from); err != nil {
		return fmt.Errorf("%s: %w", k.Name, err)
	}
	origins := []Origin{from}
	if w, ok := want.(*[]string); ok && (from.Level == Project || from.Level == Flag) {
		if k.twice {
			before := slices.DeleteFunc(slices.Clone(*have.(*[]string)), func(s string) bool { return slices.Contains(*w, s) })
			*w = append(before, *w...)
		} else {
			*w = union(*have.(*[]string), *w)
		}
		origins = append(slices.Clone(s.origins[k.Name]), from)
	}
	if lock, ok := s.lockOf(k.Name); ok && from.Level != Organisation && text(have) != text(want) {
		return fmt.Errorf("%s is locked by %s; its value is %s", k.Name, lock, text(have))
	}
	if from.Level == Project && k.Rule == Tighten && !k.atLeastAsStrict(have, want) {
		return fmt.Errorf("%s: %s", k.Name, s.refusal(k, fmt.Sprintf(
			"a project's own file may only tighten this, and %s is weaker than %s (%s)", text(want), text(have), s.originText(k.Name))))
	}
	s.Config, s.origins[k.Name] = next, origins
	s.callers = s.callers || from.File != "" && slices.Contains(ofCallers[:], k.Name)
	if k.Name == "locked" {
		return s.lock(s.Locked, from)
	}
	return nil
}

// lock notes which keys are locked.
func (s *Set) lock(names []string, from Origin) error {
	for _, n := range names {
		if find(s.keys, n) == nil && !isTable(s.keys, n) {
			return s.unknown(n)
		}
		s.locks[n] = from
	}
	return nil
}

// lockOf finds the lock of a key: its own, or its table's.
func (s *Set) lockOf(name string) (Origin, bool) {
	for n, at := range s.locks {
		if n == name || strings.HasPrefix(name, n+".") {
			return at, true
		}
	}
	return Origin{}, false
}

// LockOf returns an error that says which of the keys is locked, and where; nil
// if none is.
func (s *Set) LockOf(names ...string) error {
	for _, n := range names {
		if at, ok := s.lockOf(n); ok {
			return fmt.Errorf("%s is locked by %s", n, at)
		}
	}
	return nil
}

// Origin says what set a key.
func (s *Set) Origin(name string) []Origin {
	if o := s.origins[name]; len(o) > 0 {
		return o
	}
	return []Origin{{}}
}

func (s *Set) originText(name string) string {
	var words []string
	for _, o := range s.Origin(name) {
		words = append(words, o.String())
	}
	return strings.Join(words, ", ")
}

// refusal adds what to do instead.
func (s *Set) refusal(k *Key, why string) string {
	why += ": what runs inside could write it."
	if s.user != "" {
		why += " Put it into " + s.user
		if k.Flag != "" {
			why += ", or use --" + k.Flag
		}
	}
	return why
}

func (s *Set) unknown(name string) error {
	msg := fmt.Sprintf("unknown key %q", name)
	if meant := suggestion(s.keys, name); meant != "" {
		msg += fmt.Sprintf("; did you mean %q?", meant)
	}
	return errors.New(msg)
}

// expand makes the paths of working folders and of places absolute, and that of a socket in a
// file.
func (s *Set) expand(k *Key, field any, from Origin) error {
	if dirs, ok := field.(*[]Directory); ok {
		for i := range *dirs {
			if err := absolute(&(*dirs)[i].Path); err != nil {
				return err
			}
		}
	}
	if list, ok := field.(*[]string); ok && k.paths {
		for i := range *list {
			if err := absolute(&(*list)[i]); err != nil {
				return err
			}
		}
	}
	if path, ok := field.(*string); ok && k.Name == "mcp.socket" && from.File != "" && *path != "" {
		return absolute(path)
	}
	return nil
}

func absolute(path *string) error {
	if rest, ok := strings.CutPrefix(*path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return err
		}
		*path = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(*path) {
		return fmt.Errorf("path %q is not absolute and does not begin with ~/", *path)
	}
	return nil
}

// Clone returns an independent copy.
func (s *Set) Clone() *Set {
	c := *s
	c.origins, c.locks = map[string][]Origin{}, map[string]Origin{}
	for k, v := range s.origins {
		c.origins[k] = v
	}
	for k, v := range s.locks {
		c.locks[k] = v
	}
	return &c
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func isTable(keys []Key, name string) bool {
	return slices.ContainsFunc(keys, func(k Key) bool { return strings.HasPrefix(k.Name, name+".") })
}

func enumError(value string, allowed []string) error {
	return fmt.Errorf("%q is not one of %s", value, strings.Join(allowed, ", "))
}

// Value is one effective value, for printing.
type Value struct {
	Key    string   `json:"key"`
	Value  any      `json:"value"`
	Text   string   `json:"-"` // as codeagent.toml would have it
	Origin []string `json:"origin"`
	Locked bool     `json:"locked,omitempty"`
	Doc    string   `json:"doc,omitempty"`  // what it does, in one line
	Enum   []string `json:"enum,omitempty"` // the values there are, if they are few
}

// Values are all keys with their values, in the order of [Keys].
func (s *Set) Values() []Value {
	var out []Value
	for _, k := range s.keys {
		f := k.field(&s.Config)
		v := Value{Key: k.Name, Value: data(f), Text: text(f), Doc: strings.ReplaceAll(k.Doc, "`", ""), Enum: k.Enum}
		for _, o := range s.Origin(k.Name) {
			v.Origin = append(v.Origin, o.String())
		}
		_, v.Locked = s.lockOf(k.Name)
		out = append(out, v)
	}
	return out
}
