package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// FlagValue is the flag of a key: it implements cobra's value interface. It
// checks what it is given and keeps it for [Set.SetFlag].
type FlagValue struct {
	key    Key
	Values []string // in the order given

	usage, kind, byDefault string // for the help
}

// Flags returns a value for each key that has a flag, in the order of [Keys].
func Flags() []*FlagValue {
	var out []*FlagValue
	c := Default()
	for _, k := range Keys() {
		if k.Flag != "" {
			f := &FlagValue{key: k, usage: k.Doc}
			f.describe(k.field(&c))
			out = append(out, f)
		}
	}
	return out
}

// describe sets what the help says, by the field of the key in the defaults.
func (f *FlagValue) describe(field any) {
	f.kind = "string"
	if slices.Contains(f.key.Enum, "none") {
		f.kind = "mode"
	}
	switch field := field.(type) {
	case *string:
		f.byDefault = *field
	case *[]string:
		f.usage += " (repeatable)"
	case *bool:
		f.kind, f.byDefault = "bool", "false"
	case *int:
		f.kind = "number"
	case *Size:
		f.kind, f.byDefault = "size", field.String()
	case *Duration:
		f.kind, f.byDefault = "duration", field.String()
	}
}

// FlagValues are flags by their names.
type FlagValues map[string]*FlagValue

// Apply puts those that were given, and that which takes, over what s has from
// files.
func (f FlagValues) Apply(s *Set, which func(name string) bool) error {
	for name, v := range f {
		if len(v.Values) > 0 && which(name) {
			if err := s.SetFlag(name, v.Values); err != nil {
				return err
			}
		}
	}
	return nil
}

// Name is the flag's, without dashes.
func (f *FlagValue) Name() string { return f.key.Flag }

// Usage is its help.
func (f *FlagValue) Usage() string { return f.usage }

// Bool reports whether the flag may stand without a value.
func (f *FlagValue) Bool() bool { return f.kind == "bool" }

// Enum lists the values there are, if they are few.
func (f *FlagValue) Enum() []string { return f.key.Enum }

// Set checks a value and keeps it.
func (f *FlagValue) Set(s string) error {
	var c Config
	if err := assignText(f.key.field(&c), []string{s}); err != nil {
		return err
	}
	if err := f.key.check(&c); err != nil {
		return err
	}
	if f.key.paths {
		var err error
		if s, err = filepath.Abs(s); err != nil {
			return err
		}
	}
	if f.key.there {
		if _, err := os.Lstat(s); err != nil {
			return fmt.Errorf("it would have no effect: %w", err)
		}
	}
	f.Values = append(f.Values, s)
	return nil
}

// String is the default, which the help prints.
func (f *FlagValue) String() string { return f.byDefault }

// Type names the value in the help where the usage does not.
func (f *FlagValue) Type() string { return f.kind }
