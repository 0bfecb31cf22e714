package config

import (
	"cmp"
	"reflect"
	"strings"
	"time"
)

// field returns a pointer to the field of c that has the key's name, of a type that
// assign knows.
func (k *Key) field(c *Config) any {
	v := reflect.ValueOf(c).Elem()
	table, name := k.place()
	if table != "" {
		v = member(v, table)
	}
	return known(member(v, name).Addr())
}

// place is the key's table, which may be none, and the name of its field there.
func (k *Key) place() (table, name string) {
	table, name, ok := strings.Cut(k.Name, ".")
	if !ok {
		table, name = "", table
	}
	return table, strings.ReplaceAll(cmp.Or(k.in, name), "_", "")
}

// Changed are the keys of a table whose values in two groups differ. The groups are of the type that [Config] has for the table, or of one that is embedded there; keys
// that they do not hold are not looked at. A list without items is the same as none.
func Changed(table string, now, want any) (keys []string) {
	a, b := reflect.ValueOf(now), reflect.ValueOf(want)
	for _, k := range Keys() {
		in, name := k.place()
		if in != table {
			continue
		}
		x, y := member(a, name), member(b, name)
		if !x.IsValid() || x.Kind() == reflect.Slice && x.Len()+y.Len() == 0 || reflect.DeepEqual(x.Interface(), y.Interface()) {
			continue
		}
		keys = append(keys, k.Name)
	}
	return keys
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
