package main

import (
	"os"
	"strings"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/exit"
	"github.com/codeagent/sandbox/hypervisor"
)

// environment is what a command gets: ours without secrets, then the additions
// ("K=V", or "K" to pass our own value on).
func environment(ours, add []string) ([]string, error) {
	values := map[string]int{}
	var env []string
	set := func(kv string) {
		name, _, _ := strings.Cut(kv, "=")
		if i, ok := values[name]; ok {
			env[i] = kv
			return
		}
		values[name] = len(env)
		env = append(env, kv)
	}
	for _, kv := range ours {
		if name, _, _ := strings.Cut(kv, "="); !hypervisor.SecretVariable(name) {
			set(kv)
		}
	}
	for _, kv := range add {
		name, _, hasValue := strings.Cut(kv, "=")
		if name == "" || strings.ContainsRune(kv, 0) {
			return nil, exit.Usagef("--env %q: write K=V, or K to pass the variable on", kv)
		}
		if !hasValue {
			v, ok := os.LookupEnv(name)
			if !ok {
				continue
			}
			kv = name + "=" + v
		}
		set(kv)
	}
	return env, nil
}
