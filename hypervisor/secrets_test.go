package hypervisor

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/messages/lexical"
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

// TestW16Moved: what a variable moves is hidden where it is, for each variable of the table; a place that holds the home directory is not.
func TestW16Moved(t *testing.T) {
	home := filepath.FromSlash("/home/u")
	moved := func(env map[string]string) (out []string) {
		for _, s := range Secrets(func(name string) string { return env[name] }, home, "relative") {
			if filepath.Dir(s.Path) == "." || !filepath.IsAbs(s.Path) || s.What == "" || s.Source == "" {
				t.Errorf("%+v", s)
			}
			if strings.Contains(s.Source, "; moved by ") {
				out = append(out, s.Path)
			}
		}
		return out
	}
	got := moved(map[string]string{
		"KUBECONFIG": "/k/one:/k/two", "GNUPGHOME": "/g/", "XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "relative", "HISTFILE": "/h/hist", "HF_HOME": "/hf",
		"CLAUDE_CONFIG_DIR": "/claude", "CODEX_HOME": "/codex",
	})
	for _, want := range []string{"/k/one", "/k/two", "/g", "/c/gh", "/c/stripe", "/c/Code/User/globalStorage", "/c/goose/secrets.yaml", "/h/hist", "/hf/token", "/claude/.credentials.json", "/codex/auth.json"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if slices.ContainsFunc(got, func(p string) bool {
		return p == "/c" || p == "/hf" || p == "/claude" || strings.Contains(p, "relative")
	}) {
		t.Errorf("%q", got)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ variable, value, want string }{ // as the programs that read them do
		{"KUBECONFIG", "kube.yaml:../up:", filepath.Join(here, "kube.yaml") + " " + filepath.Join(here, "../up")},
		{"KUBECONFIG", "/k:~/mine", "/k " + home + "/mine " + here + "/~/mine"},
		{"NETRC", "/with:colon", "/with:colon"},
		{"PIP_CONFIG_FILE", "pip.conf", here + "/pip.conf"},
		{"PIP_CONFIG_FILE", "", ""},
	} {
		if got := strings.Join(moved(map[string]string{c.variable: c.value}), " "); got != c.want {
			t.Errorf("%s=%s: %q, want %q", c.variable, c.value, got, c.want)
		}
	}
	if got := moved(nil); len(got) != 0 {
		t.Errorf("without variables: %q", got)
	}
	for _, m := range moves {
		one := moved(map[string]string{m.variable: "/elsewhere"})
		if len(one) == 0 || slices.ContainsFunc(one, func(p string) bool { return !lexical.Within(p, "/elsewhere") }) {
			t.Errorf("%s moves %q", m.variable, one)
		}
		for _, wide := range []string{"/", "/home", home} {
			if slices.ContainsFunc(moved(map[string]string{m.variable: wide}), func(p string) bool { return lexical.Within(home, p) }) {
				t.Errorf("%s=%s hides the home directory", m.variable, wide)
			}
		}
	}
}
