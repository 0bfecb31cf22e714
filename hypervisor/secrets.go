package hypervisor

import (
	_ "embed"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/messages/lexical"
)

// Secret is what no guest may read: where it lies, what it is, and where that is written. It need not exist.
type Secret struct {
	Path   string `json:"path"`
	What   string `json:"what"`
	Source string `json:"source"`
}

// Secrets are those of these home directories (keys, tokens, key rings, browsers' profiles, histories), and those that variables move elsewhere. Paths are
// absolute and clean. getenv is that of whoever starts the guest; a home that is not absolute is none.
func Secrets(getenv func(string) string, homes ...string) (out []Secret) {
	homes = slices.DeleteFunc(slices.Clone(homes), func(home string) bool { return !filepath.IsAbs(home) })
	list := listed()
	for _, home := range homes {
		for _, s := range list {
			out = append(out, Secret{filepath.Join(home, s.Path), s.What, s.Source})
		}
	}
	return append(out, moved(getenv, list, homes)...)
}

// HomeSecrets are the paths of the list, below a home directory.
func HomeSecrets() (out []string) {
	for _, s := range listed() {
		out = append(out, s.Path)
	}
	return out
}

// AgentSecret reports whether a path is one of a coding agent's credentials: hidden as all secrets are, but for the agent itself.
func AgentSecret(home, path string) bool {
	rel, err := filepath.Rel(home, path)
	return err == nil && slices.ContainsFunc(listed(), func(s Secret) bool { return s.What == agents && s.Path == filepath.ToSlash(rel) })
}

// agents is what the file calls credentials of coding agents.
const agents = "a coding agent's"

// listed are those of the file. Their paths are relative.
func listed() (out []Secret) {
	for line := range strings.Lines(secretsText) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), " | "); len(f) == 3 && !strings.HasPrefix(line, "#") {
			out = append(out, Secret{f[0], f[1], f[2]})
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
	{"DOCKER_CERT_PATH", ".docker"}, {"AZURE_CONFIG_DIR", ".azure"}, {"CLOUDSDK_CONFIG", ".config/gcloud"}, {"GOOGLE_APPLICATION_CREDENTIALS", ".config/gcloud"}, {"BOTO_CONFIG", ".boto"},
	{"GH_CONFIG_DIR", ".config/gh"}, {"GLAB_CONFIG_DIR", ".config/glab-cli"}, {"HUB_CONFIG", ".config/hub"}, {"REGISTRY_AUTH_FILE", ".config/containers/auth.json"}, {"NETRC", ".netrc"},
	{"NPM_CONFIG_USERCONFIG", ".npmrc"}, {"npm_config_userconfig", ".npmrc"}, {"CARGO_HOME", ".cargo"}, {"GRADLE_USER_HOME", ".gradle"}, {"COMPOSER_HOME", ".composer"},
	{"PGPASSFILE", ".pgpass"}, {"MYSQL_TEST_LOGIN_FILE", ".mylogin.cnf"}, {"RCLONE_CONFIG", ".config/rclone"}, {"SOPS_AGE_KEY_FILE", ".config/sops"},
	{"PIP_CONFIG_FILE", ".config/pip/pip.conf"}, {"XAUTHORITY", ".Xauthority"}, {"PASSWORD_STORE_DIR", ".password-store"}, {"LPASS_HOME", ".lastpass"}, {"BITWARDENCLI_APPDATA_DIR", ".config/Bitwarden CLI"}, {"OP_CONFIG_DIR", ".config/op"},
	{"HF_HOME", ".cache/huggingface"}, {"HF_TOKEN_PATH", ".cache/huggingface/token"}, {"KAGGLE_CONFIG_DIR", ".kaggle"},
	{"DATABRICKS_CONFIG_FILE", ".databrickscfg"}, {"PULUMI_HOME", ".pulumi"}, {"TF_CLI_CONFIG_FILE", ".terraformrc"}, {"STEPPATH", ".step"}, {"TELEPORT_HOME", ".tsh"},
	{"HCLOUD_CONFIG", ".config/hcloud"}, {"SCW_CONFIG_PATH", ".config/scw"}, {"FLY_CONFIG_DIR", ".fly"}, {"VAGRANT_HOME", ".vagrant.d"}, {"MINIKUBE_HOME", ".minikube"},
	{"TALOSCONFIG", ".talos"}, {"HELM_REGISTRY_CONFIG", ".config/helm/registry/config.json"}, {"HELM_REPOSITORY_CONFIG", ".config/helm/repositories.yaml"},
	{"SNOWFLAKE_HOME", ".snowflake"}, {"DBT_PROFILES_DIR", ".dbt"}, {"JUPYTER_RUNTIME_DIR", ".local/share/jupyter/runtime"}, {"JUPYTER_CONFIG_DIR", ".jupyter"},
	{"IPYTHONDIR", ".ipython"}, {"HEX_HOME", ".hex"}, {"PUB_CACHE", ".pub-cache"}, {"CONAN_HOME", ".conan2"},
	{"HISTFILE", ".bash_history"}, {"PYTHON_HISTORY", ".python_history"}, {"NODE_REPL_HISTORY", ".node_repl_history"}, {"PSQL_HISTORY", ".psql_history"},
	{"MYSQL_HISTFILE", ".mysql_history"}, {"MARIADB_HISTFILE", ".mariadb_history"}, {"SQLITE_HISTORY", ".sqlite_history"}, {"REDISCLI_HISTFILE", ".rediscli_history"},
	{"CLAUDE_CONFIG_DIR", ".claude"}, {"CODEX_HOME", ".codex"}, {"COPILOT_HOME", ".copilot"},
}

// moved are the secrets that variables move out of their places below the home directory. A place that has a home directory in it is none: programs keep
// more there than secrets, and hiding it would hide the user's work.
func moved(getenv func(string) string, list []Secret, homes []string) (out []Secret) {
	for _, m := range moves {
		for _, to := range places(m.variable, getenv(m.variable), homes) {
			for _, s := range list {
				rest, within := strings.CutPrefix(s.Path, m.from+"/")
				if s.Path == m.from {
					rest, within = "", true
				}
				path := filepath.Join(to, rest)
				if within && !slices.ContainsFunc(append([]string{"/"}, homes...), func(home string) bool { return lexical.Within(home, path) }) {
					out = append(out, Secret{path, s.What, s.Source + "; moved by " + m.variable})
				}
			}
		}
	}
	return out
}

// places are what the value of a variable names, as the programs that read it take it: KUBECONFIG is a list, what is relative is so to the working directory, but for
// XDG's variables, which are ignored then, and some programs know ~.
func places(variable, value string, homes []string) (out []string) {
	values := []string{value}
	if variable == "KUBECONFIG" {
		values = filepath.SplitList(value)
	}
	for _, v := range values {
		if rest, tilde := strings.CutPrefix(v, "~/"); tilde {
			for _, home := range homes {
				out = append(out, filepath.Join(home, rest))
			}
		}
		if v == "" || !filepath.IsAbs(v) && strings.HasPrefix(variable, "XDG_") {
			continue
		}
		if at, err := filepath.Abs(v); err == nil {
			out = append(out, at)
		}
	}
	return out
}

// MovedAgentSecret is where variables move a coding agent's credential that would lie at path in the home directory; empty if they do not.
func MovedAgentSecret(getenv func(string) string, home, path string) string {
	for _, s := range listed() {
		if s.What == agents && filepath.Join(home, s.Path) == path {
			if to := moved(getenv, []Secret{s}, []string{home}); len(to) > 0 {
				return to[0].Path
			}
		}
	}
	return ""
}
