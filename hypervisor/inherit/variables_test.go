package inherit

import (
	"strings"
	"testing"
)

// TestSecretVariables: a variable that no guest gets is one that a command must not
// get by accident either; a credential that the caller names does reach a guest.
func TestSecretVariables(t *testing.T) {
	for _, name := range outside {
		if !VariablesKeptOutside(name) || !SecretVariable(name) {
			t.Errorf("%s: kept outside %v, secret %v", name, VariablesKeptOutside(name), SecretVariable(name))
		}
	}
	for _, name := range []string{"GITHUB_TOKEN", "db_password", "AWS_PROFILE", "KUBECONFIG", "XDG_RUNTIME_DIR", "AWS_REGION_TOKEN", "MAX_TOKENS_SECRET", "MAX_TOKEN"} {
		if VariablesKeptOutside(name) || !SecretVariable(name) {
			t.Errorf("%s: kept outside %v, secret %v", name, VariablesKeptOutside(name), SecretVariable(name))
		}
	}
	for _, name := range []string{"PATH", "HOME", "LANG", "XDG_CONFIG_HOME", "EDITOR", "AWS_REGION", "aws_default_region", "TOKENIZERS_PARALLELISM", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "MAX_THINKING_TOKENS"} {
		if SecretVariable(name) {
			t.Errorf("%s is secret", name)
		}
	}
}

func TestOfCommand(t *testing.T) {
	t.Setenv("MY_TOKEN", "t")
	ours := []string{"PATH=/bin", "MY_TOKEN=t", "AWS_PROFILE=p", "LANG=C", "SSH_AUTH_SOCK=/s", "Db_Password=x"}
	got, err := VariablesOfCommand(ours, []string{"LANG=de", "EMPTY=", "MY_TOKEN", "UNSET_THING"})
	if err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, " "); s != "PATH=/bin LANG=de EMPTY= MY_TOKEN=t" {
		t.Errorf("got %q", s)
	}
	// What a jail keeps outside is not given to a command without one either.
	for _, name := range []string{"CONTAINER_HOST", "DBUS_SYSTEM_BUS_ADDRESS", "SUDO_COMMAND", "DOCKER_HOST"} {
		if got, err := VariablesOfCommand([]string{name + "=x"}, nil); err != nil || len(got) != 0 {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "=x", "A=\x00"} {
		if _, err := VariablesOfCommand(nil, []string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
