package config

import (
	"fmt"
	"slices"
)

// notSessions are flags of keys that are the program's own, and no session's.
var notSessions = []string{"log-level", "log-format", "undo-dir"}

// Setting is the value of a key that has a flag, as text.
type Setting struct {
	Flag   string
	Values []string
	List   bool
}

// Settings are the values of all keys that a session is started with and that have
// flags.
func (s *Set) Settings() []Setting {
	var out []Setting
	for _, k := range s.keys {
		if k.Flag != "" && !slices.Contains(notSessions, k.Flag) {
			out = append(out, s.setting(k))
		}
	}
	return out
}

func (s *Set) setting(k Key) Setting {
	field := k.field(&s.Config)
	if list, ok := field.(*[]string); ok {
		return Setting{k.Flag, slices.Clone(*list), true}
	}
	value := fmt.Sprint(data(field))
	if k.Name == "isolation" && value == "auto" {
		value = "jail"
	}
	return Setting{k.Flag, []string{value}, false}
}

// Asked are the settings that flags ask for: of a list only what was given.
func (f FlagValues) Asked(s *Set) []Setting {
	var out []Setting
	for _, k := range s.keys {
		v := f[k.Flag]
		if k.Flag == "" || v == nil || len(v.Values) == 0 || slices.Contains(notSessions, k.Flag) {
			continue
		}
		one := s.setting(k)
		if one.List {
			one.Values = slices.Clone(v.Values)
		}
		out = append(out, one)
	}
	return out
}
