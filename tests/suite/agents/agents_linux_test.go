package agents

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/npm"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// modules returns the directory in which the agents are.
func modules(t *testing.T) string { return npm.Modules(t, drive.Module(t)+"/tests/suite/agents") }

// node returns one that is new enough for Gemini CLI, as the jail shows it.
func node(t *testing.T) string {
	t.Helper()
	path := require.Program(t, "node", "nodejs")
	var major int
	if out, err := exec.Command(path, "--version").Output(); err != nil {
		t.Fatal(err)
	} else if _, err := fmt.Sscanf(string(out), "v%d.", &major); err == nil && major >= 20 {
		return drive.Visible(t, path)
	}
	return drive.Visible(t, npm.Node(t, npm.Modules(t, drive.Module(t)+"/tests/suite/mcpclients")))
}

// platform is what npm's packages call this machine's processor.
func platform() string {
	if runtime.GOARCH == "amd64" {
		return "x64"
	}
	return runtime.GOARCH
}

// newSandbox is drive's, with a program that is seen in the jail, too: the agent's hook
// starts it there.
func newSandbox(t *testing.T) *drive.Sandbox {
	t.Helper()
	require.TUN(t)
	s := drive.New(t, fill)
	s.Program = drive.Visible(t, s.Program)
	// Where the agents' profiles have it.
	home := filepath.Join(s.State, "home")
	s.Env = append(s.Env, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"), "XDG_STATE_HOME="+filepath.Join(home, ".local", "state"), "XDG_CACHE_HOME="+filepath.Join(home, ".cache"))
	return s
}

// fill makes the folder that the agents work in.
func fill(t testing.TB, root string) {
	for name, text := range map[string]string{
		"src/a.txt": "one\ntwo\nthree\n", "tree/1": "1\n", "tree/deep/er/2": "2\n", "kept": "kept\n",
	} {
		write(t, filepath.Join(root, name), text)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// conversation is what the model says. The two commands that it asks for at once
// each wait for the other, so they end only if they run at the same time.
func conversation() []turn {
	meet := func(mine, other string) string {
		return "echo x >" + mine + "; for i in $(seq 1200); do [ -e " + other + " ] && break; sleep 0.05; done; cat " + other + " && echo met " + other
	}
	return []turn{
		{{edit: &edit{"src/a.txt", "two", "2"}}},
		{{shell: "mkdir gen && seq 3 >gen/n && cat gen/n src/a.txt; exit 3", want: "three"}},
		{{shell: meet("left", "right"), want: "met right"}, {shell: meet("right", "left"), want: "met left"}},
		{{shell: "rm -rf tree gen && ls", want: "kept"}},
	}
}

// agentTimeout bounds a conversation. Agents start slowly, most of all while others do.
const agentTimeout = 10 * time.Minute

// converse runs an agent in the jail until its model has said everything, and then
// undoes each step alone, and all of them.
func converse(t *testing.T, s *drive.Sandbox, m *model, args ...string) {
	ctx, cancel := context.WithTimeout(t.Context(), agentTimeout)
	defer cancel()
	out, err := s.Command(ctx, append([]string{"run", "--isolation", "jail"}, args...)...).CombinedOutput()
	if !m.check() || err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	after := s.Snapshot(t)
	treesnap.AssertEqual(t, m.trees[len(m.trees)-1], after)
	var commands []string
	steps := s.History(t)
	for _, st := range slices.Backward(steps) {
		commands = append(commands, st.Command)
	}
	if edited, err := os.ReadFile(filepath.Join(s.Dir, "src", "a.txt")); err != nil || string(edited) != "one\n2\nthree\n" {
		t.Errorf("the edit: %q, %v", edited, err)
	}
	if len(steps) != len(m.talk)-1 {
		t.Fatalf("%d steps: %s", len(steps), strings.Join(commands, "\n"))
	}
	for _, tree := range slices.Backward(m.trees[:len(m.trees)-1]) {
		s.Must(t, "undo")
		treesnap.AssertEqual(t, tree, s.Snapshot(t))
	}
	s.Must(t, "redo", "4")
	treesnap.AssertEqual(t, after, s.Snapshot(t))
	s.Must(t, "undo", "4")
	treesnap.AssertEqual(t, m.trees[0], s.Snapshot(t))
	s.CheckResidue(t)
}

func TestCodex(t *testing.T) { codex(t) }

// TestCodexDynamic: in a view that asks, nothing has to be asked for a whole conversation.
func TestCodexDynamic(t *testing.T) {
	codex(t, "--mode", "dynamic", "--safeguard-timeout", "1s")
}

func codex(t *testing.T, flags ...string) {
	t.Parallel()
	s := newSandbox(t)
	program := filepath.Join(modules(t), "codex-linux-"+platform(), "vendor", map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]+"-unknown-linux-musl", "bin", "codex")
	m, port := newModel(t, s.Dir, responses{}, conversation())
	write(t, filepath.Join(s.State, "home", ".codex", "config.toml"), `model = "scripted"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "http://host.sandbox.internal:`+port+`/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
[analytics]
enabled = false
`)
	s.Env = append(s.Env, "OPENAI_API_KEY=key")
	install(t, s, "codex")
	program = drive.Visible(t, program)
	if flags != nil { // the checkout and copies are where a person would be asked
		flags = append(flags, "--show", filepath.Dir(program), "--show", filepath.Dir(s.Program))
	}
	converse(t, s, m, append(flags, "--profile", "codex", "--allow-host", "host.sandbox.internal:"+port, "--", program, "exec", "--skip-git-repo-check",
		"--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust", "do what is to be done")...)
}

func TestOpencode(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	name := map[string]string{"amd64": "opencode-linux-x64-baseline"}[runtime.GOARCH]
	if name == "" {
		require.Missing(t, "opencode for "+runtime.GOARCH, "add the package to tests/suite/agents/package.json")
	}
	program := filepath.Join(modules(t), name, "bin", "opencode")
	m, port := newModel(t, s.Dir, chat{dir: s.Dir}, conversation())
	write(t, filepath.Join(s.State, "home", ".config", "opencode", "opencode.json"), `{
  "autoupdate": false, "share": "disabled", "permission": "allow", "model": "scripted/scripted", "small_model": "scripted/scripted",
  "provider": {"scripted": {
    "npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "http://host.sandbox.internal:`+port+`/v1", "apiKey": "key"},
    "models": {"scripted": {"tool_call": true, "limit": {"context": 100000, "output": 10000}}}
  }}
}`)
	// It fetches a package for plugins, and waits for it: not from here.
	s.Env = append(s.Env, "npm_config_offline=true", "OPENCODE_DISABLE_MODELS_FETCH=1")
	install(t, s, "opencode")
	converse(t, s, m, "--profile", "opencode", "--allow-host", "host.sandbox.internal:"+port, "--", drive.Visible(t, program), "run", "do what is to be done")
}

func TestGeminiCLI(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	dir := modules(t)
	m, port := newModel(t, s.Dir, gemini{dir: s.Dir}, conversation())
	write(t, filepath.Join(s.State, "home", ".gemini", "settings.json"), `{
  "security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false}
}`)
	s.Env = append(s.Env, "GEMINI_API_KEY=key", "GOOGLE_GEMINI_BASE_URL=http://host.sandbox.internal:"+port)
	install(t, s, "gemini-cli")
	converse(t, s, m, "--profile", "gemini-cli", "--allow-host", "host.sandbox.internal:"+port, "--", node(t),
		filepath.Join(drive.Visible(t, filepath.Join(dir, "@google", "gemini-cli")), "bundle", "gemini.js"), "--yolo", "--skip-trust", "-m", "gemini-2.5-flash", "-p", "do what is to be done")
}

// install puts our hook into the agent's files.
func install(t *testing.T, s *drive.Sandbox, client string) {
	t.Helper()
	if out, err := s.Bare(t.Context(), "install", "--client", client, "--shell").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
