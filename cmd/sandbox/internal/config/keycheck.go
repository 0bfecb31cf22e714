package config

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"time"
)

// The following compare values of which 0 means "never asked".

func fewer(from, to any) bool {
	f, t := *from.(*int), *to.(*int)
	return f == 0 || t != 0 && t <= f
}

func smaller(from, to any) bool {
	f, t := *from.(*Size), *to.(*Size)
	return f <= 0 || t > 0 && t <= f
}

func smallerInt(from, to any) bool {
	f, t := *from.(*int), *to.(*int)
	return f <= 0 || t > 0 && t <= f
}

func fewerCPUs(from, to any) bool {
	f, _ := milliCPUs(*from.(*string))
	t, err := milliCPUs(*to.(*string))
	return err == nil && (f == 0 || t > 0 && t <= f)
}

func sooner(from, to any) bool { return *to.(*Duration) <= *from.(*Duration) }

func atOnce(c *Config) error {
	if n := c.Commands.AtOnce; n < 1 || n > 1000 {
		return fmt.Errorf("%d is not between 1 and 1000", n)
	}
	return nil
}

func between(d, least, most time.Duration) error {
	if d < least || d > most {
		return fmt.Errorf("%v is not between %v and %v", Duration(d), Duration(least), Duration(most))
	}
	return nil
}

// listened looks at an address to listen at; empty is none.
func listened(address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil && address != "" {
		return fmt.Errorf("%q is no address: it is HOST:PORT, as in 127.0.0.1:8080", address)
	}
	return nil
}

// knownAgents refuses an agent that nobody relays.
func knownAgents(c *Config) error {
	for _, name := range c.Jail.Agents {
		if name != "ssh" && name != "gpg" {
			return fmt.Errorf("there is no agent %q; there are ssh and gpg", name)
		}
	}
	return nil
}

func noMore(from, to any) bool { return *to.(*int) <= *from.(*int) }

// sameNetwork: none is stricter than each other one; of networks of a guest's own the one that stands further behind is.
func sameNetwork(from, to any) bool {
	own := []string{"open", "ask", "allowlist"}
	f, t := *from.(*string), *to.(*string)
	was, is := slices.Index(own, f), slices.Index(own, t)
	return t == f || t == "disabled" || was >= 0 && is >= was
}

func onlyTrue(from, to any) bool  { return !*from.(*bool) || *to.(*bool) }
func onlyFalse(from, to any) bool { return *from.(*bool) || !*to.(*bool) }

// atLeastAsStrict applies the rule Tighten. Lists are added to, which is always
// allowed for a key that has it.
func (k *Key) atLeastAsStrict(from, to any) bool {
	switch {
	case k.tighter != nil:
		return k.tighter(from, to)
	case k.Enum != nil:
		return slices.Index(k.Enum, *to.(*string)) >= slices.Index(k.Enum, *from.(*string))
	}
	return true
}

// check looks at a value that was assigned. An empty choice and a zero limit
// mean the default, which check puts in their place.
func (k *Key) check(c *Config) error {
	def := Default()
	switch f := k.field(c).(type) {
	case *string:
		if *f == "" {
			*f = *k.field(&def).(*string)
		}
		if k.Enum != nil && !slices.Contains(k.Enum, *f) {
			return enumError(*f, k.Enum)
		}
	case *int:
		if *f < 0 && !k.unlimited {
			return fmt.Errorf("%d is out of range: write a number from 0 to %d", *f, math.MaxInt32)
		}
		if *f == 0 {
			*f = *k.field(&def).(*int)
		}
	case *Size:
		if *f == 0 {
			*f = *k.field(&def).(*Size)
		}
	case *Duration:
		if *f == 0 {
			*f = *k.field(&def).(*Duration)
		}
	}
	if k.valid != nil {
		return k.valid(c)
	}
	return nil
}

// find returns the key of that name, or nil.
func find(keys []Key, name string) *Key {
	for i := range keys {
		if keys[i].Name == name || keys[i].was != "" && keys[i].was == name {
			return &keys[i]
		}
	}
	return nil
}

// suggestion is the key or table that was probably meant, or empty.
func suggestion(keys []Key, name string) string {
	meant, candidates := map[string]string{}, []string(nil)
	try := func(candidate, key string) {
		candidates = append(candidates, candidate)
		if _, known := meant[candidate]; !known {
			meant[candidate] = key
		}
	}
	for _, k := range keys {
		try(k.Name, k.Name)
		if table, last, ok := strings.Cut(k.Name, "."); ok && !strings.Contains(name, ".") {
			try(table, table)
			try(last, k.Name)
		}
	}
	return meant[Closest(name, candidates)]
}

// Closest returns the first of the candidates that name is most like, or "" if it is like none: what
// somebody meant who wrote the name.
func Closest(name string, candidates []string) string {
	best, at := "", len(name)/3+2
	for _, c := range candidates {
		if d := distance(name, c); d < at {
			best, at = c, d
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			here := min(row[j+1], row[j]) + 1
			if a[i] == b[j] {
				here = min(here, before)
			} else {
				here = min(here, before+1)
			}
			before, row[j+1] = row[j+1], here
		}
	}
	return row[len(b)]
}
