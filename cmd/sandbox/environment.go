package main

import (
	"os"
	"strings"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/exit"
)

// secretParts and secretNames decide which variables a command does not get
// unless --env names them: credentials, and sockets of agents that would act
// for the user.
var (
	secretParts = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY", "OTLP_HEADERS"}
	secretNames = []string{
		"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR",
		"DOCKER_HOST", "KUBECONFIG", "GNOME_KEYRING_CONTROL", "WAYLAND_DISPLAY", "DISPLAY", "XAUTHORITY",
	}
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
		if name, _, _ := strings.Cut(kv, "="); !isSecret(name) {
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

func isSecret(name string) bool {
	upper := strings.ToUpper(name)
	for _, n := range secretNames {
		if upper == n {
			return true
		}
	}
	for _, p := range secretParts {
		if strings.Contains(upper, p) {
			return true
		}
	}
	return strings.HasPrefix(upper, "AWS_") || strings.HasPrefix(upper, "AZURE_")
}
