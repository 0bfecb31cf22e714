package hypervisor

import (
	_ "embed"
	"path/filepath"
	"slices"
	"strings"
)

// HomeSecrets are paths below a home directory that no guest may read: keys,
// tokens, key rings, browsers' profiles, agents' sockets. They need not exist.
func HomeSecrets() []string {
	return append(slices.Clone(agentSecrets), listed()...)
}

// listed are those of the file.
func listed() (out []string) {
	for line := range strings.Lines(secretsText) {
		if path, _, ok := strings.Cut(line, " | "); ok && !strings.HasPrefix(line, "#") {
			out = append(out, path)
		}
	}
	return out
}

// secretsText has a line for each: the path, what it is, and where that is written.
//
//go:embed secrets.txt
var secretsText string

// moves are variables that say where some of it lies instead: all whose path is, or begins with, from.
var moves = []struct{ variable, from string }{
	{"XDG_CONFIG_HOME", ".config"}, {"XDG_DATA_HOME", ".local/share"}, {"XDG_STATE_HOME", ".local/state"}, {"XDG_CACHE_HOME", ".cache"},
	{"KUBECONFIG", ".kube"}, {"AWS_SHARED_CREDENTIALS_FILE", ".aws"}, {"AWS_CONFIG_FILE", ".aws"}, {"GNUPGHOME", ".gnupg"}, {"DOCKER_CONFIG", ".docker"},
	{"AZURE_CONFIG_DIR", ".azure"}, {"CLOUDSDK_CONFIG", ".config/gcloud"}, {"GOOGLE_APPLICATION_CREDENTIALS", ".config/gcloud"}, {"BOTO_CONFIG", ".boto"},
	{"GH_CONFIG_DIR", ".config/gh"}, {"GLAB_CONFIG_DIR", ".config/glab-cli"}, {"REGISTRY_AUTH_FILE", ".config/containers/auth.json"}, {"NETRC", ".netrc"},
	{"NPM_CONFIG_USERCONFIG", ".npmrc"}, {"npm_config_userconfig", ".npmrc"}, {"CARGO_HOME", ".cargo"}, {"PGPASSFILE", ".pgpass"}, {"RCLONE_CONFIG", ".config/rclone"},
	{"PASSWORD_STORE_DIR", ".password-store"}, {"HF_HOME", ".cache/huggingface"}, {"HF_TOKEN_PATH", ".cache/huggingface/token"}, {"KAGGLE_CONFIG_DIR", ".kaggle"},
	{"DATABRICKS_CONFIG_FILE", ".databrickscfg"}, {"PULUMI_HOME", ".pulumi"}, {"TF_CLI_CONFIG_FILE", ".terraformrc"}, {"STEPPATH", ".step"}, {"TELEPORT_HOME", ".tsh"},
	{"HCLOUD_CONFIG", ".config/hcloud"}, {"HISTFILE", ".bash_history"}, {"PYTHON_HISTORY", ".python_history"}, {"NODE_REPL_HISTORY", ".node_repl_history"},
	{"PSQL_HISTORY", ".psql_history"}, {"MYSQL_HISTFILE", ".mysql_history"},
}

// MovedSecrets are the absolute paths of secrets that variables move out of their places below the home directory. getenv is that of whoever starts the
// guest. What an agent's own variable moves is up to its profile.
func MovedSecrets(getenv func(string) string) (out []string) {
	secrets := listed()
	for _, m := range moves {
		for _, to := range filepath.SplitList(getenv(m.variable)) {
			if !filepath.IsAbs(to) {
				continue
			}
			for _, s := range secrets {
				if s == m.from {
					out = append(out, filepath.Clean(to))
				} else if rest, ok := strings.CutPrefix(s, m.from+"/"); ok {
					out = append(out, filepath.Join(to, rest))
				}
			}
		}
	}
	return out
}

// LogSuffix ends the name of an undo log that lies beside its folder. It begins with a dot.
const LogSuffix = ".sandbox-undo"

// agentSecrets are credentials of coding agents: hidden as all secrets are, but for the
// agent itself.
var agentSecrets = []string{
	".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".local/share/opencode/auth.json",
	".aider/oauth-keys.env", ".config/goose/secrets.yaml", ".copilot/config.json",
}

// AgentSecret reports whether a path is one of a coding agent's credentials.
func AgentSecret(home, path string) bool {
	rel, err := filepath.Rel(home, path)
	return err == nil && slices.Contains(agentSecrets, filepath.ToSlash(rel))
}
