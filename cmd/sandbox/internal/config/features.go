package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/hypervisor"
)

// Asks are the features that the configuration asks for, in their order, as [hypervisor.Choose] takes them.
func (s *Set) Asks() (out []hypervisor.Ask) {
	for _, f := range hypervisor.Features() {
		for _, w := range f.Wishes {
			if ask, ok := s.asks(f, w); ok {
				out = append(out, ask)
			}
		}
	}
	return out
}

// asks returns how the configuration wishes that, if it does.
func (s *Set) asks(f hypervisor.Feature, w hypervisor.Wish) (hypervisor.Ask, bool) {
	k := find(s.keys, w.Key)
	if k == nil {
		return hypervisor.Ask{}, false
	}
	v := reflect.ValueOf(k.field(&s.Config)).Elem()
	value := ""
	if w.Values != nil {
		value = " " + v.String()
	}
	if w.Values != nil && !slices.Contains(w.Values, value[1:]) || nothing(v) {
		return hypervisor.Ask{}, false
	}
	origins := s.Origin(w.Key)
	from := slices.MaxFunc(origins, func(a, b Origin) int { return int(a.Level) - int(b.Level) })
	ask := hypervisor.Ask{Feature: f.Name, Key: w.Key}
	switch _, locked := s.lockOf(w.Key); {
	case from.Level == FromDefault:
		ask.Said, ask.Drop = w.Key+value, w.Key
	case from.Level == Request:
		ask.Said, ask.By = strings.ReplaceAll(w.Key, ".", "_")+value, hypervisor.ByRequest
	case from.Level == Flag && from.Flag != w.Flag: // what a profile sets
		ask.Said, ask.Drop, ask.By = fmt.Sprintf("--%s (%s%s)", from.Flag, w.Key, value), "--"+from.Flag, hypervisor.ByFlag
	case from.Level == Flag:
		ask.Said, ask.By = "--"+w.Flag+value, hypervisor.ByFlag
		ask.Drop = ask.Said
	default:
		def := Default()
		ask.Said, ask.Drop, ask.By = fmt.Sprintf("%s%s (%s)", w.Key, value, from), w.Key, hypervisor.ByFile
		ask.Usual = text(k.field(&s.Config)) == text(k.field(&def))
		if locked && !f.Tuning {
			ask.By = hypervisor.ByLock
		}
	}
	return ask, true
}

// Flagged reports whether a flag has set a key whose name begins so.
func (s *Set) Flagged(prefix string) bool {
	for name, origins := range s.origins {
		if strings.HasPrefix(name, prefix) && slices.ContainsFunc(origins, func(o Origin) bool { return o.Level == Flag }) {
			return true
		}
	}
	return false
}

// nothing reports whether a value asks for nothing: it is empty, false, zero, or says that there is no limit.
func nothing(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		return v.Int() <= 0
	case reflect.Slice:
		return v.Len() == 0
	case reflect.String:
		return v.String() == "" || v.String() == "0"
	}
	return v.IsZero()
}

// Without is the configuration without those keys: they ask for nothing, whatever a level says.
func (s *Set) Without(keys ...string) *Set {
	if len(keys) == 0 {
		return s
	}
	c, def := s.Clone(), Default()
	for _, name := range keys {
		k := find(c.keys, name)
		if k == nil {
			continue
		}
		to := reflect.ValueOf(k.field(&c.Config)).Elem()
		to.SetZero()
		if k.Enum != nil {
			to.Set(reflect.ValueOf(k.field(&def)).Elem())
		}
		delete(c.origins, name)
	}
	return c
}
