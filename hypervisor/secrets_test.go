package hypervisor

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestW16Secrets: each line of the file has a path below the home directory, what it is and where that is written; none is there twice, or lies in
// another.
func TestW16Secrets(t *testing.T) {
	seen := map[string]bool{}
	for line := range strings.Lines(secretsText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), " | ")
		if len(fields) != 3 || fields[1] == "" || fields[2] == "" || !filepath.IsLocal(fields[0]) || filepath.Clean(fields[0]) != fields[0] || fields[0] == "." {
			t.Errorf("%q", line)
			continue
		}
		for dir := filepath.Dir(fields[0]); dir != "."; dir = filepath.Dir(dir) {
			if seen[dir] {
				t.Errorf("%s lies in %s", fields[0], dir)
			}
		}
		if seen[fields[0]] {
			t.Errorf("%s is there twice", fields[0])
		}
		seen[fields[0]] = true
	}
	for _, want := range []string{".ssh", ".bash_history", ".python_history", ".node_repl_history", ".psql_history", ".bitcoin", ".kaggle", ".databrickscfg", ".pulumi/credentials.json",
		".terraformrc", ".config/stripe", ".config/netlify", ".config/hcloud", ".step", ".tsh", ".config/Signal", ".config/Code/User/globalStorage", ".local/state/sandbox"} {
		if !slices.Contains(HomeSecrets(), want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// TestW16Moved: what a variable moves is hidden where it is.
func TestW16Moved(t *testing.T) {
	env := map[string]string{
		"KUBECONFIG": "/k/one:/k/two", "GNUPGHOME": "/g/", "XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "relative", "HISTFILE": "/h/hist", "HF_HOME": "/hf",
	}
	got := MovedSecrets(func(name string) string { return env[name] })
	for _, want := range []string{"/k/one", "/k/two", "/g", "/c/gh", "/c/stripe", "/c/Code/User/globalStorage", "/h/hist", "/hf/token"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if slices.ContainsFunc(got, func(p string) bool {
		return !filepath.IsAbs(p) || p == "/c" || p == "/hf" || strings.Contains(p, "relative")
	}) {
		t.Errorf("%q", got)
	}
	if got := MovedSecrets(func(string) string { return "" }); len(got) != 0 {
		t.Errorf("without variables: %q", got)
	}
	for _, m := range moves {
		if !slices.ContainsFunc(listed(), func(s string) bool { return s == m.from || strings.HasPrefix(s, m.from+"/") }) {
			t.Errorf("%s moves nothing", m.variable)
		}
	}
}
