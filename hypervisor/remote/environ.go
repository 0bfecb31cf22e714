package remote

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/hypervisor"
)

// Path is where commands are looked for if nobody says it.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environ returns what a command inside gets to see of env. keep is asked about each variable: what its
// value is inside, and whether the command gets it at all. What leads outside has been left out before,
// unless the caller has named it ([inherit.VariablesOfCommand]). TERM is the type of the command's terminal, if that has one. SANDBOX=1
// and add come last, in place of what env has of these names.
func Environ(env []string, tty *hypervisor.TTY, keep func(name, value string) (string, bool), add ...string) []string {
	typed := tty != nil && tty.Term != ""
	replaced := func(name string) bool {
		return slices.ContainsFunc(add, func(e string) bool { return len(e) > len(name) && e[len(name)] == '=' && e[:len(name)] == name })
	}
	out := make([]string, 0, len(env)+len(add)+2)
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if name == "SANDBOX" || name == "TERM" && typed || replaced(name) {
			continue
		}
		if value, ok := keep(name, value); ok {
			out = append(out, name+"="+value)
		}
	}
	if typed {
		out = append(out, "TERM="+tty.Term)
	}
	return append(append(out, "SANDBOX=1"), add...)
}

// Ours returns the variables that values names, sorted, with the values that they have in our own
// environment. Where that has none, the one in values counts; what has neither is left out.
func Ours(values map[string]string) []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := os.Getenv(name)
		if value == "" {
			value = values[name]
		}
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}
