package hypervisor

import (
	"path/filepath"
	"slices"
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
