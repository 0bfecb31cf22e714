package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"
)

// wanted is everything that this system has, for one client.
func wanted(t *testing.T, c Client) Want {
	t.Helper()
	args := []string{"serve", "--protocol", "mcp"}
	if c.Workspace != "" {
		args = append(args, "--working-dir", c.Workspace)
	}
	s, err := c.Entry("/usr/bin/sandbox", args)
	if err != nil {
		t.Fatal(err)
	}
	return Want{Name: "sandbox", Server: s, MCP: true, Shell: c.NoShell(Places{Windows: runtime.GOOS == "windows"}) == "", Hook: "/usr/bin/sandbox hook " + c.Name}
}

// TestPartsComeAndGo: what install makes where nothing was is gone after uninstall, and a
// second install changes nothing.
func TestPartsComeAndGo(t *testing.T) {
	for _, c := range AllClients() {
		for _, scope := range []Scope{User, Project} {
			if c.Homeless && scope == Project {
				continue
			}
			t.Run(c.Name+" "+string(scope), func(t *testing.T) {
				home := t.TempDir()
				t.Setenv("HOME", home)
				t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
				t.Setenv("CODEX_HOME", "")
				t.Chdir(home)
				p, err := ClientsHere()
				if err != nil {
					t.Fatal(err)
				}
				parts, err := c.Parts(p, scope, wanted(t, c))
				if err != nil {
					t.Fatal(err)
				}
				for round := range 2 {
					for _, part := range parts {
						change, err := part.Add("", 0o644, now)
						if err != nil || change.Changed != (round == 0) {
							t.Fatalf("round %d, %s: %+v, %v", round, part.File, change, err)
						}
					}
				}
				for i := range parts {
					part := parts[len(parts)-1-i]
					if change, err := part.Remove("", now); err != nil || !change.Changed {
						t.Fatalf("%s: %+v, %v", part.File, change, err)
					}
					if change, err := part.Remove("", now); err != nil || change.Changed {
						t.Fatalf("%s, again: %+v, %v", part.File, change, err)
					}
				}
				left := walk(t, home)
				for _, name := range left { // two parts in one file: the second kept a copy
					if !strings.HasSuffix(name, ".bak") {
						t.Errorf("left behind: %v", left)
					}
				}
			})
		}
	}
}

func walk(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestHooksOfOthersStay(t *testing.T) {
	c := find(t, "claude-code")
	w := wanted(t, c)
	path := []string{"hooks", "PreToolUse"}
	grouped := `{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "x"}, {"type": "command", "command": "/opt/sandbox hook claude-code"}]}]}}`
	if _, err := c.removeHook([]byte(grouped), w, path); err == nil {
		t.Error("a group with another hook is taken away")
	}
	for _, other := range []string{"sandbox hook codex", "sandbox run", "x sandbox hook claude-code", "/opt/sandboxx hook claude-code", ""} {
		text := []byte(`{"hooks": {"PreToolUse": [{"hooks": [{"command": "` + other + `"}]}, 1, null, {"hooks": []}]}}`)
		if out, err := c.removeHook(text, w, path); err != nil || !bytes.Equal(out, text) {
			t.Errorf("%q: %s, %v", other, out, err)
		}
	}
	old := []byte(`{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "'/o p/sandbox' hook claude-code -- --keep 1m"}]}]}}`)
	out, err := c.addHook(old, w, path)
	if err != nil || bytes.Count(out, []byte("hook claude-code")) != 1 || bytes.Contains(out, []byte("keep")) {
		t.Errorf("an older hook: %s, %v", out, err)
	}
	if _, err := c.addHook([]byte(`{"hooks": {"PreToolUse": {}}}`), w, path); err == nil {
		t.Error("hooks that are no list are replaced")
	}
}

func TestOwnFilesOfOthersStay(t *testing.T) {
	part := ownFile("x", filepath.Join(t.TempDir(), "d", "x.md"), "text "+marker, false)
	if err := os.MkdirAll(filepath.Dir(part.File), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, part.File, "mine", 0o600)
	if _, err := part.Add("", 0o600, now); !errors.Is(err, ErrForeign) {
		t.Error(err)
	}
	if _, err := part.Remove("", now); !errors.Is(err, ErrForeign) || get(t, part.File) != "mine" {
		t.Error(err)
	}
	put(t, part.File, "changed, "+marker, 0o600)
	change, err := part.Remove("", now)
	if err != nil || change.Backup == "" || !strings.HasPrefix(get(t, change.Backup), "changed") || there(part.File) {
		t.Errorf("a file that the user changed: %+v, %v", change, err)
	}
}

func TestTable(t *testing.T) {
	s := Server{Command: "/usr/bin/sandbox", Args: []string{"serve", "--protocol", "mcp"}}
	tb := table{section: "mcp_servers", name: "sandbox", server: s}
	const lines = "[mcp_servers.sandbox]\ncommand = '/usr/bin/sandbox'\nargs = ['serve', '--protocol', 'mcp']\n"
	for name, c := range map[string]struct{ in, want string }{
		"no file":  {"", lines},
		"others":   {"# c\na = 1 # d\n\n[x]\ny = [ # z\n]\n", "# c\na = 1 # d\n\n[x]\ny = [ # z\n]\n\n" + lines},
		"blank":    {"\n\n", "\n\n\n" + lines},
		"no end":   {"a = 1", "a = 1\n\n" + lines},
		"there":    {lines + "\n[z]\n", lines + "\n[z]\n"},
		"moved":    {"[mcp_servers.sandbox] # s\nargs = [\n  'serve', # x\n]\nenv = {A = 'b'}\n# end\ncommand = '/old/sandbox'\n# z\n[z]\n", "[mcp_servers.sandbox] # s\nargs = ['serve', '--protocol', 'mcp']\nenv = {A = 'b'}\n# end\ncommand = '/usr/bin/sandbox'\n# z\n[z]\n"},
		"a quoted": {"[mcp_servers.\"sandbox\"]\ncommand = 'sandbox'\nargs = ['serve']\n", "[mcp_servers.\"sandbox\"]\ncommand = '/usr/bin/sandbox'\nargs = ['serve', '--protocol', 'mcp']\n"},
	} {
		out, err := tb.add([]byte(c.in))
		if err != nil || string(out) != c.want {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	for name, c := range map[string]struct{ in, want string }{
		"below":     {"a = 1\n\n" + lines + "\n[mcp_servers.sandbox.env]\nA = 'b'\n\n# z\n[z]\n", "a = 1\n\n# z\n[z]\n"},
		"not there": {"a = 1\n", "a = 1\n"},
	} {
		out, err := tb.remove([]byte(c.in))
		if err != nil || string(out) != c.want {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	for _, in := range []string{"mcp_servers = 1", "a = ", "[mcp_servers]\nsandbox = {command = 'sandbox', args = ['serve']}\n", "mcp_servers.sandbox.command = 'sandbox'\nmcp_servers.sandbox.args = ['serve']\n", "mcp_servers = {x = {command = 'y'}}\n"} {
		if out, err := tb.add([]byte(in)); err == nil {
			t.Errorf("%q became\n%s", in, out)
		}
	}
	foreign := []byte("[mcp_servers.sandbox]\ncommand = 'x'\n")
	if _, err := tb.add(foreign); !errors.Is(err, ErrForeign) {
		t.Error(err)
	}
	if _, err := tb.remove(foreign); !errors.Is(err, ErrForeign) {
		t.Error(err)
	}
}

// TestTableComesAndGoes: what add puts there, remove takes away, and nothing else.
func TestTableComesAndGoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"a = 1\n", "# c\n", "\n", "[x]\n", "b.c = 'd'\n", "[mcp_servers.other]\ncommand = 'x'\n", "[[l]]\n", "e = [\n 1, # two\n]\n", "s = '''\n[x]\n'''\n", "[mcp_servers.sandboxx]\n",
		}), 0, 6).Draw(t, "parts"), "")
		var doc map[string]any
		if toml.Unmarshal([]byte(text), &doc) != nil {
			t.Skip("a table twice")
		}
		tb := table{section: "mcp_servers", name: "sandbox", server: Server{Command: "sandbox", Args: []string{"serve", "it's \"x\"\n"}}}
		with, err := tb.add([]byte(text))
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if again, err := tb.add(with); err != nil || !bytes.Equal(again, with) {
			t.Fatalf("not idempotent: %v\n%s\n%s", err, with, again)
		}
		back, err := tb.remove(with)
		if err != nil || string(back) != text {
			t.Fatalf("%v\n%q\nbecame\n%q\nand then\n%q", err, text, with, back)
		}
	})
}

func FuzzTable(f *testing.F) {
	for _, seed := range []string{"", "a = 1", "[mcp_servers.sandbox]\ncommand = 'sandbox'\nargs = ['serve']\n[mcp_servers.sandbox.env]\nA = '''\n'''\n", "[mcp_servers]\nsandbox = 1", "[[mcp_servers.sandbox]]\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		tb := table{section: "mcp_servers", name: "sandbox", server: Server{Command: "sandbox", Args: []string{"serve"}}, force: true}
		before := bytes.Clone(text)
		if out, err := tb.add(text); err == nil {
			if again, err := tb.add(out); err != nil || !bytes.Equal(again, out) {
				t.Fatalf("%v: %q became %q", err, out, again)
			}
			if _, err := tb.remove(out); err != nil {
				t.Fatalf("%v: %q", err, out)
			}
		}
		_, _ = tb.remove(text) // what it must not do, it checks itself
		if !bytes.Equal(text, before) {
			t.Fatal("the source was changed")
		}
	})
}

// TestPathsOfWindows: a path with backslashes and spaces is what the client reads again, and what uninstall finds.
func TestPathsOfWindows(t *testing.T) {
	const program = `C:\Program Files\new tools\sandbox.exe`
	dir := t.TempDir()
	p := Places{Windows: true, Home: dir, Config: filepath.Join(dir, "AppData"), Codex: filepath.Join(dir, ".codex"), XDG: filepath.Join(dir, ".config")}
	for _, c := range AllClients() {
		w := Want{Name: "sandbox", MCP: true}
		var err error
		if w.Server, err = c.Entry(program, []string{"serve", "--working-dir", `\\server\new share\x`}); err != nil {
			t.Fatal(err)
		}
		if c.NoShell(p) == "" {
			t.Errorf("%s: its shell is routed", c.Name)
		}
		parts, err := c.Parts(p, User, w)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			text, err := part.Snippet()
			if err != nil {
				t.Fatal(err)
			}
			again, err := part.add(text)
			if err != nil || !bytes.Equal(again, text) {
				t.Errorf("%s: not found again: %v\n%s", part.File, err, again)
			}
			var have any
			if filepath.Ext(part.File) == ".toml" {
				err = toml.Unmarshal(text, &have)
			} else {
				err = json.Unmarshal(text, &have)
			}
			if err != nil || !has(have, program) {
				t.Errorf("%s lacks %q: %v\n%s", part.File, program, err, text)
			}
			if left, err := part.remove(text); err != nil || bytes.Contains(left, []byte("sandbox.exe")) {
				t.Errorf("%s: %v\n%s", part.File, err, left)
			}
		}
	}
}

// has tells whether a string is one of a document's values.
func has(doc any, s string) bool {
	switch v := doc.(type) {
	case string:
		return v == s
	case []any:
		return slices.ContainsFunc(v, func(x any) bool { return has(x, s) })
	case map[string]any:
		for _, x := range v {
			if has(x, s) {
				return true
			}
		}
	}
	return false
}
