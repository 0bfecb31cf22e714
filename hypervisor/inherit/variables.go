package inherit

import "os"

// VariablesKeptOutside reports whether a variable of the environment leads to agents and
// daemons outside, so that no guest gets it unless the caller names it: what it leads to cannot be reached inside.
func VariablesKeptOutside(name string) bool { return oneOf(outside, upper(name)) }

// SecretVariable reports whether a command gets a variable only if the caller names it:
// what is kept outside, and credentials.
func SecretVariable(name string) bool {
	name = upper(name)
	if harmless(name) {
		return false
	}
	for _, part := range credentialParts {
		if hasPart(name, part) {
			return true
		}
	}
	return oneOf(outside, name) || oneOf(credentials, name) || begins(name, "AWS_") || begins(name, "AZURE_")
}

var (
	credentialParts = [...]string{
		"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY",
		"OTLP_HEADERS",
	}
	credentials = []string{"KUBECONFIG", "XDG_RUNTIME_DIR"}
)

// known are harmless variables whose names look like those of credentials.
var known = []string{
	"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_DEFAULT_OUTPUT", "AWS_PAGER", "AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE", "AWS_SDK_LOAD_CONFIG", "AWS_EC2_METADATA_DISABLED",
	"AZURE_DEFAULTS_LOCATION", "AZURE_CORE_OUTPUT", "TOKENIZERS_PARALLELISM",
}

// harmless reports whether a variable is one of these, or says how many tokens of text a model may take: MAX_THINKING_TOKENS.
func harmless(name string) bool {
	return oneOf(known, name) || hasPart(name, "MAX_") && begins(name[max(0, len(name)-len("_TOKENS")):], "_TOKENS")
}

func hasPart(s, part string) bool {
	for at := range len(s) {
		if begins(s[at:], part) {
			return true
		}
	}
	return false
}

var outside = []string{
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "GNOME_KEYRING_CONTROL", "DBUS_SESSION_BUS_ADDRESS",
	"DBUS_SYSTEM_BUS_ADDRESS", "DOCKER_HOST", "CONTAINER_HOST", "XAUTHORITY", "DISPLAY",
	"WAYLAND_DISPLAY", "SUDO_COMMAND", "SUDO_USER", "SUDO_UID", "SUDO_GID",
	"SUDO_HOME",
}

// BadVariableError is an addition that is none.
type BadVariableError struct{ Addition string }

func (e *BadVariableError) Error() string {
	return "--env '" + e.Addition + "': write K=V, or K to pass the variable on"
}

// VariablesOfCommand is the environment of a command: ours without secrets, then the additions
// ("K=V", or "K" to pass our own value on). The error is a *[BadVariableError].
func VariablesOfCommand(ours, add []string) ([]string, error) {
	values := map[string]int{}
	var env []string
	set := func(kv string) {
		name, _ := variablesNamed(kv)
		if i, ok := values[name]; ok {
			env[i] = kv
			return
		}
		values[name] = len(env)
		env = append(env, kv)
	}
	for _, kv := range ours {
		if name, _ := variablesNamed(kv); !SecretVariable(name) {
			set(kv)
		}
	}
	for _, kv := range add {
		name, hasValue := variablesNamed(kv)
		if name == "" || hasZero(kv) {
			return nil, &BadVariableError{kv}
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

// VariableLeadsOut returns the names of those additions by which a caller passes on what leads outside.
func VariableLeadsOut(add []string) (names []string) {
	for _, kv := range add {
		if name, hasValue := variablesNamed(kv); !hasValue && VariablesKeptOutside(name) {
			names = append(names, name)
		}
	}
	return names
}

// variablesNamed is the name of a variable; hasValue is false if nothing but the name is there.
func variablesNamed(kv string) (name string, hasValue bool) {
	for i := range len(kv) {
		if kv[i] == '=' {
			return kv[:i], true
		}
	}
	return kv, false
}

func hasZero(s string) bool {
	for i := range len(s) {
		if s[i] == 0 {
			return true
		}
	}
	return false
}

func oneOf(list []string, s string) bool {
	for _, one := range list {
		if one == s {
			return true
		}
	}
	return false
}

func begins(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

// upper is s with the small letters of ASCII as capitals.
func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'a' && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
