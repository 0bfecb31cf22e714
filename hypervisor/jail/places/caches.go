package places

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Cache is a directory of a compiler's or package manager's own.
type Cache struct {
	Path string
	// Stock: without an overlay it stays as the host has it. An empty one would be worse.
	Stock bool
}

// caches are what compilers and package managers keep, and where they install programs for a user.
var caches = []struct {
	variables string // of the environment, each with what lies below what it names; the first that is set counts
	home      string // where it is otherwise, in the home directory; empty: in another cache, or where nobody may write
	tools     string // programs that make it, if any of them is installed; empty: none does; "*": it is always there
	stock     bool
}{
	{variables: "XDG_CACHE_HOME", home: ".cache", tools: "*"},
	{variables: "GOCACHE"},
	{variables: "GOPATH/pkg", home: "go/pkg", tools: "go", stock: true},
	{variables: "GOMODCACHE", stock: true},
	{variables: "GOBIN GOPATH/bin", home: "go/bin", tools: "go", stock: true},
	{variables: "CARGO_HOME", home: ".cargo", tools: "cargo", stock: true},
	{variables: "CARGO_INSTALL_ROOT/bin", stock: true},
	{variables: "RUSTUP_HOME", home: ".rustup", tools: "rustup", stock: true},
	{variables: "npm_config_cache NPM_CONFIG_CACHE", home: ".npm", tools: "npm"},
	{variables: "npm_config_prefix/bin NPM_CONFIG_PREFIX/bin", stock: true},
	{variables: "npm_config_prefix/lib NPM_CONFIG_PREFIX/lib", stock: true},
	{home: ".npm-global", stock: true},
	{variables: "PNPM_HOME XDG_DATA_HOME/pnpm", home: ".local/share/pnpm", tools: "pnpm", stock: true},
	{variables: "YARN_CACHE_FOLDER", home: ".yarn", tools: "yarn"},
	{variables: "BUN_INSTALL", home: ".bun", tools: "bun", stock: true},
	{variables: "DENO_INSTALL_ROOT DENO_INSTALL", home: ".deno", tools: "deno", stock: true},
	{variables: "DENO_DIR"},
	{home: ".local/bin", tools: "npm pip pip3 pipx python3 uv", stock: true},
	{home: ".local/lib", tools: "npm pip pip3 python3", stock: true},
	{variables: "XDG_BIN_HOME", stock: true},
	{variables: "PYTHONUSERBASE/bin", stock: true},
	{variables: "PYTHONUSERBASE/lib", stock: true},
	{variables: "PIP_CACHE_DIR"},
	{variables: "PIPX_HOME XDG_DATA_HOME/pipx", home: ".local/share/pipx", tools: "pipx", stock: true},
	{home: ".local/pipx", stock: true},
	{variables: "PIPX_BIN_DIR", stock: true},
	{variables: "UV_CACHE_DIR"},
	{variables: "XDG_DATA_HOME/uv", home: ".local/share/uv", tools: "uv", stock: true},
	{variables: "UV_TOOL_DIR", stock: true},
	{variables: "UV_TOOL_BIN_DIR", stock: true},
	{variables: "UV_PYTHON_INSTALL_DIR", stock: true},
	{variables: "GEM_HOME", stock: true},
	{variables: "XDG_DATA_HOME/gem", home: ".local/share/gem", tools: "gem", stock: true},
	{home: ".gem", stock: true},
	{home: ".m2/repository", tools: "mvn", stock: true},
	{variables: "GRADLE_USER_HOME", home: ".gradle", tools: "gradle", stock: true},
	{variables: "CCACHE_DIR", home: ".ccache"},
}

// Caches are the caches of a user, and where programs are installed for this user alone: those that the environment names,
// those that are there, and those of programs that are there. home may be empty.
func Caches(home string) []Cache {
	var out []Cache
	for _, c := range caches {
		path := named(c.variables)
		if path == "" && c.home != "" && home != "" {
			path = filepath.Join(home, c.home)
			if _, err := os.Stat(path); err != nil && !installed(c.tools) {
				continue
			}
		}
		if filepath.IsAbs(path) {
			out = append(out, Cache{Path: ResolveMount(path), Stock: c.stock})
		}
	}
	return out
}

// named is what the first of these variables that is set leads to, or empty.
func named(variables string) string {
	for v := range strings.FieldsSeq(variables) {
		name, below, _ := strings.Cut(v, "/")
		if value := os.Getenv(name); value != "" {
			value, _, _ = strings.Cut(value, string(filepath.ListSeparator)) // GOPATH is a list
			return filepath.Join(value, below)
		}
	}
	return ""
}

func installed(tools string) bool {
	return tools == "*" || slices.ContainsFunc(strings.Fields(tools), func(tool string) bool {
		_, err := exec.LookPath(tool)
		return err == nil
	})
}
