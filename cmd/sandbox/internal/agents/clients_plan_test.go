package agents

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// home makes an empty home directory, which is also the project.
func home(t *testing.T) Places {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("USERPROFILE", dir) // what Windows calls it
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, ".config"))
	t.Setenv("CODEX_HOME", "")
	t.Setenv("PATH", filepath.Join(dir, "bin"))
	t.Chdir(dir)
	p, err := ClientsHere()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func putIn(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func fileText(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "none"
	}
	return string(text)
}

// reversed is the order in which parts are removed.
func reversed(parts []Part) []Part {
	var out []Part
	for i := range parts {
		out = append(out, parts[len(parts)-1-i])
	}
	return out
}

// TestPlanIsWhatHappens: what a plan says of each file is what it is afterwards, for every
// client, where there was nothing and where there was something, and back.
func TestPlanIsWhatHappens(t *testing.T) {
	for _, c := range AllClients() {
		for _, before := range []string{"", "{\n  \"mine\": [1, 2]\n}\n"} {
			t.Run(c.Name+" "+before, func(t *testing.T) {
				p := home(t)
				parts, err := c.Parts(p, User, wanted(t, c))
				if err != nil {
					t.Fatal(err)
				}
				if before != "" && c.servers.form != inTable {
					putIn(t, parts[0].File, before)
				}
				for _, remove := range []bool{false, true} {
					steps, err := Plan(parts, "", remove)
					if err != nil {
						t.Fatal(err)
					}
					last := map[string][]byte{}
					for _, s := range steps {
						last[s.Part.File] = s.After
					}
					for _, s := range steps {
						if remove {
							_, err = s.Pinned().Remove("", now)
						} else {
							_, err = s.Pinned().Add("", 0o644, now)
						}
						if err != nil {
							t.Fatal(err)
						}
					}
					for file, text := range last {
						want := string(text)
						if text == nil {
							want = "none"
						}
						if got := fileText(file); got != want {
							t.Errorf("remove %t, %s is\n%s\nand was to be\n%s", remove, file, got, want)
						}
					}
					parts = reversed(parts)
				}
			})
		}
	}
}

// TestPreview: it says what becomes of each file, writes nothing, and names exactly this.
func TestPreview(t *testing.T) {
	p := home(t)
	c, err := FindClient("gemini-cli") // its server and its hook are in one file
	if err != nil {
		t.Fatal(err)
	}
	w := wanted(t, c)
	p.Windows, w.Shell = false, true // a hook is previewed, too
	parts, err := c.Parts(p, User, w)
	if err != nil {
		t.Fatal(err)
	}
	file := parts[0].File
	look := func(remove bool) Preview {
		t.Helper()
		steps, err := Plan(parts, "", remove)
		if err != nil {
			t.Fatal(err)
		}
		v, err := PreviewOf(steps)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := look(false)
	if len(v.Changes) != 2 || v.Changes[0].Change != "create" || len(v.Changes[0].What) != 2 || !strings.Contains(v.Changes[0].Diff, "\n+++ b/"+strings.TrimPrefix(filepath.ToSlash(file), "/")+"\n@@ ") {
		t.Errorf("%+v", v)
	}
	if _, err := os.Lstat(filepath.Dir(file)); err == nil {
		t.Error("the preview has made a folder")
	}
	if again := look(false); again.Digest != v.Digest {
		t.Error("two previews of the same are two")
	}
	putIn(t, file, "// \xff\x1b[31m\n{\"a\": \"<script>\u202e\"}")
	hostile := look(false)
	if d := hostile.Changes[0]; d.Change != "modify" || !strings.Contains(d.Diff, "<script>") || strings.Contains(d.Diff, "\xff") || hostile.Digest == v.Digest {
		t.Errorf("%+v", d)
	}
	putIn(t, file, `{"a": "`+strings.Repeat("x", maxDiffBytes)+`"}`)
	if d := look(false).Changes[0]; !d.Cut || len(d.Diff) > maxDiffBytes {
		t.Errorf("%d bytes, cut: %t", len(d.Diff), d.Cut)
	}
	putIn(t, file, "{}")
	steps, err := Plan(parts, "", false)
	if err != nil {
		t.Fatal(err)
	}
	putIn(t, file, `{"b": 1}`) // after the preview
	if _, err := steps[0].Pinned().Add("", 0o644, now); !errors.Is(err, ErrStale) {
		t.Errorf("a file that was changed since: %v", err)
	}
	if got := fileText(file); got != `{"b": 1}` {
		t.Errorf("it was changed: %s", got)
	}
}

// TestLook: a client is found by its program or its folder, and what is in its files is told
// as it is: ours, nothing, somebody else's, or nonsense.
func TestLook(t *testing.T) {
	p := home(t)
	codex := filepath.Join(p.Home, "bin", "codex")
	if runtime.GOOS == "windows" {
		codex += ".exe"
	}
	putIn(t, codex, "#!/bin/sh\n")
	putIn(t, filepath.Join(p.Home, ".cursor", "mcp.json"), "{ nonsense")
	putIn(t, filepath.Join(p.Home, ".gemini", "settings.json"), `{"mcpServers": {"sandbox": {"command": "other"}}}`)
	c, err := FindClient("claude-code")
	if err != nil {
		t.Fatal(err)
	}
	w := wanted(t, c)
	p.Windows, w.Shell = false, true
	parts, err := c.Parts(p, User, w)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts[1:] { // the hook, not the server
		if _, err := part.Add("", 0o644, now); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]FoundClients{}
	for _, f := range LookClients(p, User, "sandbox", "/usr/bin/sandbox") {
		found[f.Name] = f
	}
	if f := found["claude-code"]; !f.Found || !f.Shell.Installed || f.MCP.Installed || f.Shell.File != filepath.Join(p.Home, ".claude", "settings.json") {
		t.Errorf("%+v", f)
	}
	if f := found["codex"]; f.Program != codex || f.Folder != "" || !f.Found || f.MCP.Installed {
		t.Errorf("%+v", f)
	}
	if f := found["cursor"]; f.Folder == "" || f.MCP.Installed || !strings.Contains(f.MCP.Why, "mcp.json") {
		t.Errorf("%+v", f)
	}
	if f := found["gemini-cli"]; f.MCP.Installed || !strings.Contains(f.MCP.Why, "not made by this program") || f.Shell.Why != "" {
		t.Errorf("%+v", f)
	}
	if f := found["opencode"]; f.Found || f.MCP.File == "" {
		t.Errorf("%+v", f)
	}
	if f := found["claude-desktop"]; f.Shell.File != "" || f.Shell.Why == "" {
		t.Errorf("%+v", f)
	}
}
