package hypervisor

import "testing"

// TestSecretVariables: a variable that no guest gets is one that a command must not
// get by accident either; a credential that the caller names does reach a guest.
func TestSecretVariables(t *testing.T) {
	for _, name := range outsideEnv {
		if !KeptOutside(name) || !SecretVariable(name) {
			t.Errorf("%s: kept outside %v, secret %v", name, KeptOutside(name), SecretVariable(name))
		}
	}
	for _, name := range []string{"GITHUB_TOKEN", "db_password", "AWS_PROFILE", "KUBECONFIG", "XDG_RUNTIME_DIR"} {
		if KeptOutside(name) || !SecretVariable(name) {
			t.Errorf("%s: kept outside %v, secret %v", name, KeptOutside(name), SecretVariable(name))
		}
	}
	for _, name := range []string{"PATH", "HOME", "LANG", "XDG_CONFIG_HOME", "EDITOR"} {
		if SecretVariable(name) {
			t.Errorf("%s is secret", name)
		}
	}
}
