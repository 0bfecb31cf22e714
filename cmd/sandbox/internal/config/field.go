package config

import (
	"reflect"
	"strings"
	"time"
)

// field returns a pointer to the field of c that has the key's name, of a type that
// assign knows.
func (k *Key) field(c *Config) any {
	v, name := reflect.ValueOf(c).Elem(), k.Name
	if k.in != "" {
		table, _, _ := strings.Cut(name, ".")
		name = table + "." + k.in
	}
	for part := range strings.SplitSeq(strings.ReplaceAll(name, "_", ""), ".") {
		v = member(v, part)
	}
	return known(v.Addr())
}

// member is the field of that name, its case aside, of v itself or of what v embeds. (FieldByNameFunc
// was a tenth of what the program takes to start.)
func member(v reflect.Value, name string) reflect.Value {
	var embedded []reflect.Value
	for i := range v.NumField() {
		switch f := v.Type().Field(i); {
		case strings.EqualFold(f.Name, name):
			return v.Field(i)
		case f.Anonymous:
			embedded = append(embedded, v.Field(i))
		}
	}
	for _, e := range embedded { // as in Go, a field hides that of what is embedded beside it
		if m := member(e, name); m.IsValid() {
			return m
		}
	}
	return reflect.Value{}
}

// known is a pointer to a field as one to a type that assign knows. Groups that others declare know nothing of this package: a number of bytes is
// an int64 in them, and a word that has a type of its own is text.
func known(p reflect.Value) any {
	switch f := p.Interface().(type) {
	case *int64:
		return (*Size)(f)
	case *time.Duration:
		return (*Duration)(f)
	}
	if p.Elem().Kind() == reflect.String {
		p = p.Convert(reflect.TypeFor[*string]())
	}
	return p.Interface()
}
