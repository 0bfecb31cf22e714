package frontend

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Environ is the environment of a command, as "K=V": base (nil: this process's
// own) with add, which replaces what is there and comes last, sorted. Without
// additions it is base as it is. An error names what cannot be a variable.
func Environ(base []string, add map[string]string) ([]string, error) {
	if len(add) == 0 {
		return base, nil
	}
	for k, v := range add {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return nil, fmt.Errorf("%q cannot be a variable", Short([]byte(k)))
		}
	}
	if base == nil {
		base = os.Environ()
	}
	env := slices.DeleteFunc(slices.Clone(base), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, replaced := add[name]
		return replaced
	})
	for _, k := range slices.Sorted(maps.Keys(add)) {
		env = append(env, k+"="+add[k])
	}
	return env, nil
}
