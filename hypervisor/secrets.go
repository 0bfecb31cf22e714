package hypervisor

import (
	"path/filepath"
	"slices"
	"strings"
)

// HomeSecrets are paths below a home directory that no guest may read: keys,
// tokens, key rings, browsers' profiles, agents' sockets. They need not exist.
func HomeSecrets() []string { return slices.Clone(homeSecrets) }

// agentSecrets are credentials of coding agents: hidden as all secrets are, but for the
// agent itself.
var agentSecrets = []string{
	".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".local/share/opencode/auth.json",
	".aider/oauth-keys.env", ".config/goose/secrets.yaml",
}

// AgentSecret reports whether a path is one of a coding agent's credentials.
func AgentSecret(home, path string) bool {
	rel, err := filepath.Rel(home, path)
	return err == nil && slices.Contains(agentSecrets, filepath.ToSlash(rel))
}

var homeSecrets = append(slices.Clone(agentSecrets),
	// keys
	".ssh", ".gnupg", ".age", ".config/sops", ".pki", ".putty",
	// clouds
	".aws", ".azure", ".config/gcloud", ".config/doctl", ".oci", ".aliyun", ".bluemix", ".fly", ".config/heroku",
	".kube", ".vault-token", ".terraform.d/credentials.tfrc.json", ".config/rclone", ".s3cfg", ".boto",
	// containers
	".docker", ".config/containers/auth.json", ".local/share/containers",
	// forges and package registries
	".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub", ".config/glab-cli",
	".npmrc", ".yarnrc.yml", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
	".config/composer/auth.json", ".composer/auth.json", ".pgpass", ".my.cnf",
	".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".local/share/uv/credentials",
	// key rings and password managers
	".local/share/keyrings", ".gnome2/keyrings", ".local/share/kwalletd", ".kde/share/apps/kwallet", ".password-store",
	".config/op", ".config/Bitwarden", ".config/Bitwarden CLI", ".config/keepassxc", ".config/1Password",
	// browsers and mail
	".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge",
	".config/vivaldi", ".config/opera", ".cache/mozilla", ".cache/thunderbird", ".cache/google-chrome", ".cache/chromium",
	".cache/BraveSoftware", ".cache/microsoft-edge", ".cache/vivaldi", ".cache/opera", ".librewolf", "snap/firefox", "snap/chromium", "snap/thunderbird",
	".var/app/org.mozilla.firefox", ".var/app/com.google.Chrome", ".var/app/org.chromium.Chromium",
)

// KeptOutside reports whether a variable of the environment leads to agents and
// daemons outside, so that no guest gets it, whatever the caller says.
func KeptOutside(name string) bool { return slices.Contains(outsideEnv, strings.ToUpper(name)) }

// SecretVariable reports whether a command gets a variable only if the caller names
// it: what is kept outside, and credentials.
func SecretVariable(name string) bool {
	name = strings.ToUpper(name)
	return KeptOutside(name) || slices.Contains(credentialEnv, name) ||
		slices.ContainsFunc(credentialParts, func(part string) bool { return strings.Contains(name, part) }) ||
		strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "AZURE_")
}

var (
	credentialParts = []string{
		"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY",
		"OTLP_HEADERS",
	}
	credentialEnv = []string{"KUBECONFIG", "XDG_RUNTIME_DIR"}
)

var outsideEnv = []string{
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "GNOME_KEYRING_CONTROL", "DBUS_SESSION_BUS_ADDRESS",
	"DBUS_SYSTEM_BUS_ADDRESS", "DOCKER_HOST", "CONTAINER_HOST", "XAUTHORITY", "DISPLAY",
	"WAYLAND_DISPLAY", "SUDO_COMMAND", "SUDO_USER", "SUDO_UID", "SUDO_GID",
	"SUDO_HOME",
}
