package agents

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func find(t *testing.T, name string) Client {
	t.Helper()
	c, err := FindClient(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func put(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// upper is an edit that can be seen.
func upper(b []byte) ([]byte, error) { return bytes.ToUpper(b), nil }

func TestPlaces(t *testing.T) {
	p := Places{Home: "/h", Config: "/h/.config", Project: "/p", Codex: "/h/.codex", XDG: "/h/.config"}
	want := map[string][2]string{
		"claude-code":    {"/h/.claude.json", "/p/.mcp.json"},
		"claude-desktop": {"/h/.config/Claude/claude_desktop_config.json", ""},
		"codex":          {"/h/.codex/config.toml", "/p/.codex/config.toml"},
		"gemini-cli":     {"/h/.gemini/settings.json", "/p/.gemini/settings.json"},
		"opencode":       {"/h/.config/opencode/opencode.json", "/p/opencode.json"},
		"cursor":         {"/h/.cursor/mcp.json", "/p/.cursor/mcp.json"},
		"vscode":         {"/h/.config/Code/User/mcp.json", "/p/.vscode/mcp.json"},
	}
	for _, c := range AllClients() {
		for i, scope := range []Scope{User, Project} {
			have, err := c.servers.file(p, scope)
			if filepath.ToSlash(have) != want[c.Name][i] || (err != nil) != (want[c.Name][i] == "") {
				t.Errorf("%s, %s: %s, %v", c.Name, scope, have, err)
			}
		}
	}
	if len(want) != len(ClientNames()) {
		t.Errorf("clients %v", ClientNames())
	}
	if _, err := FindClient("emacs"); err == nil {
		t.Error("an unknown client is found")
	}
}

func TestAddKeepsWhatTheUserAdded(t *testing.T) {
	c := find(t, "claude-code")
	s, err := c.Entry("/usr/bin/sandbox", []string{"serve", "--protocol", "mcp"})
	if err != nil {
		t.Fatal(err)
	}
	const before = `{"mcpServers": {"sandbox": {"env": {"A": "1"}, "command": "/old/sandbox", "args": ["serve"], "timeout": 9}}}`
	out, err := c.addServer([]byte(before), "sandbox", s, false)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"mcpServers": {"sandbox": {"env": {"A": "1"}, "command": "/usr/bin/sandbox", "args": ["serve","--protocol","mcp"], "timeout": 9, "type": "stdio"}}}`
	if string(out) != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	foreign := strings.Replace(before, `"serve"`, `"x"`, 1)
	if _, err := c.addServer([]byte(foreign), "sandbox", s, false); !errors.Is(err, ErrForeign) {
		t.Errorf("another's entry: %v", err)
	}
	if _, err := c.removeServer([]byte(foreign), "sandbox", s.Command, false); !errors.Is(err, ErrForeign) {
		t.Errorf("another's entry: %v", err)
	}
	out, err = c.addServer([]byte(foreign), "sandbox", s, true)
	if err != nil || strings.Contains(string(out), "env") {
		t.Errorf("forced: %s, %v", out, err)
	}
	out, err = c.removeServer(out, "sandbox", s.Command, false)
	if err != nil || string(out) != `{"mcpServers": {}}` {
		t.Errorf("removed: %s, %v", out, err)
	}
}

func TestEntryRefusesWhatTheClientWouldReplace(t *testing.T) {
	for _, c := range AllClients() {
		for _, v := range c.servers.variables {
			if _, err := c.Entry("/bin/sandbox", []string{"serve", "-C", "/a/" + v + "HOME}"}); err == nil {
				t.Errorf("%s takes %s", c.Name, v)
			}
		}
	}
	if _, err := find(t, "vscode").Entry("/bin/sandbox", []string{"serve", "-C", "${workspaceFolder}"}); err != nil {
		t.Error(err)
	}
}

func TestEditKeepsModeAndABackup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.json")
	put(t, file, "{a", 0o640)
	for i, want := range []string{".20260102-030405.bak", ".20260102-030405-2.bak"} {
		put(t, file, "{a", 0o640)
		c, err := Edit(file, "", 0o600, now, upper)
		if err != nil || !c.Changed || c.Backup != file+want {
			t.Fatalf("%d: %+v, %v", i, c, err)
		}
		for name, text := range map[string]string{file: "{A", c.Backup: "{a"} {
			st, err := os.Stat(name)
			if err != nil || !private(st, 0o640) || get(t, name) != text {
				t.Errorf("%s: %v, %v, %q", name, st.Mode(), err, get(t, name))
			}
		}
	}
	c, err := Edit(file, "", 0o600, now, upper)
	if err != nil || c.Changed || c.Backup != "" {
		t.Errorf("a second time: %+v, %v", c, err)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	hidden, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*"))
	if len(left) != 3 || len(hidden) != 0 {
		t.Errorf("left behind: %v %v", left, hidden)
	}
}

// private tells whether a file has this mode, if it can have one.
func private(st os.FileInfo, mode os.FileMode) bool {
	return runtime.GOOS == "windows" || st.Mode().Perm() == mode
}

func TestEditMakesAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a", "b", "c.json")
	c, err := Edit(file, "", 0o600, now, func(b []byte) ([]byte, error) { return append(b, "{}"...), nil })
	st, statErr := os.Stat(file)
	if err != nil || statErr != nil || !c.Changed || c.Backup != "" || !private(st, 0o600) {
		t.Errorf("%+v, %v, %v", c, err, statErr)
	}
	none := filepath.Join(t.TempDir(), "none", "c.json")
	if c, err := Edit(none, "", 0o600, now, upper); err != nil || c.Changed || there(filepath.Dir(none)) {
		t.Errorf("nothing to write: %+v, %v", c, err)
	}
}

func TestEditFollowsSymlinks(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	real := filepath.Join(elsewhere, "real.json")
	put(t, real, "{a", 0o600)
	link := filepath.Join(dir, "c.json")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Edit(link, dir, 0o600, now, upper); err == nil || get(t, real) != "{a" {
		t.Errorf("a link out of the project was followed: %v", err)
	}
	if _, err := Edit(link, "", 0o600, now, upper); err != nil || get(t, real) != "{A" {
		t.Errorf("error %v, the file is %q", err, get(t, real))
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", st, err)
	}
	dangling := filepath.Join(dir, "d.json")
	if err := os.Symlink(filepath.Join(dir, "none"), dangling); err != nil {
		t.Fatal(err)
	}
	if _, err := Edit(dangling, "", 0o600, now, upper); err == nil {
		t.Error("a link to nothing is taken")
	}
	// A folder on the way that leads out.
	if err := os.Symlink(elsewhere, filepath.Join(dir, ".vscode")); err != nil {
		t.Fatal(err)
	}
	if _, err := Edit(filepath.Join(dir, ".vscode", "mcp.json"), dir, 0o600, now, func([]byte) ([]byte, error) { return []byte("{}"), nil }); err == nil || there(filepath.Join(elsewhere, "mcp.json")) {
		t.Errorf("a folder that leads out was followed: %v", err)
	}
}

func TestEditSeesWhatTheClientWrites(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.json")
	put(t, file, "one", 0o600)
	runs := 0
	c, err := Edit(file, "", 0o600, now, func(b []byte) ([]byte, error) {
		if runs++; runs == 1 {
			put(t, file, "two", 0o600) // the client, meanwhile
		}
		return upper(b)
	})
	if err != nil || get(t, file) != "TWO" || get(t, c.Backup) != "two" || runs != 2 {
		t.Errorf("%+v, %v, %d runs, %q", c, err, runs, get(t, file))
	}
	_, err = Edit(file, "", 0o600, now, func(b []byte) ([]byte, error) {
		runs++
		put(t, file, strings.Repeat("x", runs), 0o600)
		return append(b, 'y'), nil
	})
	if err == nil || strings.Contains(get(t, file), "y") {
		t.Errorf("written over: %v", err)
	}
}

func TestEditRefusesInvalidFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.json")
	const text = "{\n  \"mcpServers\": {\n  ]\n}\n"
	put(t, file, text, 0o600)
	c := find(t, "claude-code")
	s, err := c.Entry("/bin/sandbox", []string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Edit(file, "", 0o600, now, func(b []byte) ([]byte, error) { return c.addServer(b, "sandbox", s, false) })
	if err == nil || !strings.Contains(err.Error(), file+":3:3:") || get(t, file) != text {
		t.Errorf("error %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Edit(file, "", 0o600, now, upper); err == nil {
		t.Error("a folder is taken for a file")
	}
}
