package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
)

func source(t *testing.T) ProfileSource {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := ProfileSource{Dirs: []string{filepath.Join(dir, "user"), filepath.Join(dir, "organisation")}, Home: filepath.Join(dir, "home")}
	for _, d := range append(s.Dirs, s.Home) {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestBuiltin: each is valid, and its credentials are known secrets: hidden from others.
func TestBuiltin(t *testing.T) {
	s := source(t)
	for name := range builtin() {
		f, err := s.Find(name)
		if err != nil || f.File != "" || f.Profile.Description == "" || len(f.Profile.Write) == 0 || len(f.Profile.Hosts) == 0 || len(f.Profile.Env) == 0 {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
		for _, c := range f.Profile.Credentials {
			if at, err := s.Path(c); err != nil || !hypervisor.AgentSecret(s.Home, at) {
				t.Errorf("%s: %s is not hidden from other agents", name, c)
			}
		}
	}
}

func TestTheUsersOwnComesFirst(t *testing.T) {
	s := source(t)
	put(t, filepath.Join(s.Dirs[1], "codex.toml"), `description = "organisation"`)
	put(t, filepath.Join(s.Dirs[1], "both.toml"), `description = "organisation"`)
	put(t, filepath.Join(s.Dirs[0], "both.toml"), `description = "user"`)
	put(t, filepath.Join(s.Dirs[0], "-x.toml"), "")
	for name, want := range map[string]string{"codex": "organisation", "both": "user", "goose": "goose"} {
		if f, err := s.Find(name); err != nil || f.Profile.Description != want {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	names, err := s.Names()
	if err != nil || !slices.Equal(names, []string{"aider", "both", "claude-code", "codex", "gemini-cli", "goose", "opencode"}) {
		t.Error(names, err)
	}
	for _, name := range []string{"", "none", "../x", "a/b", ".x", "-x", strings.Repeat("x", 65)} {
		if _, err := s.Find(name); err == nil {
			t.Errorf("%q is found", name)
		}
	}
	put(t, filepath.Join(s.Dirs[0], "large.toml"), strings.Repeat("#", maxBytes+1))
	if _, err := s.Find("large"); err == nil {
		t.Error("a file of any size is read")
	}
}

func TestWhatIsRefused(t *testing.T) {
	s := source(t)
	for _, l := range [][2]string{{"/", "root"}, {"/etc", "etc"}, {s.Home, "self"}, {"/none/at/all", "nowhere"}, {filepath.Join(s.Home, ".ssh"), "keys"}} {
		if err := os.Symlink(l[0], filepath.Join(s.Home, l[1])); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(s.Home, ".ssh", "id"), "")
	for text, want := range map[string]string{
		`write = ["~/nowhere/x/"]`:             "leads nowhere",
		`write = ["/"]`:                        "is the home directory, or has it in it",
		`write = ["~/"]`:                       "is the home directory, or has it in it",
		`write = ["~/."]`:                      "is the home directory, or has it in it",
		`write = ["~/.."]`:                     "is the home directory, or has it in it",
		`write = ["~/x/../.."]`:                "is the home directory, or has it in it",
		`write = ["~/root"]`:                   "is the home directory, or has it in it",
		`write = ["~/self/"]`:                  "is the home directory, or has it in it",
		`write = ["/home/another/.codex"]`:     "is not below your home directory",
		`write = ["/etc"]`:                     "is not below your home directory",
		`write = ["~/etc/"]`:                   "is not below your home directory",
		`write = ["~/root/usr/new/"]`:          "is not below your home directory",
		`write = ["~x/.codex"]`:                "is not absolute",
		`write = ["x"]`:                        "is not absolute",
		`write = [""]`:                         "is not absolute",
		`write = ["~/.ssh"]`:                   "a known secret",
		`write = ["~/.ssh/x"]`:                 "a known secret",
		`write = ["~/keys/x"]`:                 "a known secret",
		`write = ["~/.config"]`:                "a known secret",
		`credentials = ["~/.codex/auth.json"]`: "somebody else's",
		"write = [\"~/.aider/\"]\ncredentials = [\"~/.codex/auth.json\"]":  "somebody else's",
		"write = [\"~/.aider/\"]\ncredentials = [\"~/.aider/../.ssh/id\"]": "somebody else's",
		`hosts = ["http://x"]`:    "hosts:",
		`env = ["A=b"]`:           "is no variable's name",
		`env = [""]`:              "is no variable's name",
		`env = ["SSH_AUTH_SOCK"]`: "leads to programs outside",
		`writes = []`:             `line 1: unknown key "writes"`,
		`write = "x"`:             "line 1",
		`write = [1]`:             "line 1",
		"\n[x":                    "line 2",
	} {
		if p, err := s.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", text, p, err, want)
		}
	}
}

func TestPlaces(t *testing.T) {
	s := source(t)
	p, err := s.Parse([]byte("write = [\"~/.new/dir/\", \"~/.file\", \"~/.none\"]\ncredentials = [\"~/.new/dir/key\"]"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(s.Home, ".file"), "")
	write, show, err := s.Places(p, []string{filepath.Join(s.Home, "work")})
	if want := []string{filepath.Join(s.Home, ".new", "dir"), filepath.Join(s.Home, ".file")}; err != nil || !slices.Equal(write, want) {
		t.Errorf("%v, %v; want %v", write, err, want)
	}
	if len(show) != 1 || show[0] != filepath.Join(s.Home, ".new", "dir", "key") {
		t.Error(show)
	}
	for _, folder := range []string{s.Home, filepath.Join(s.Home, ".new"), filepath.Join(s.Home, ".new", "dir"), filepath.Join(s.Home, ".new", "dir", "x")} {
		if _, _, err := s.Places(p, []string{folder}); err == nil || !strings.Contains(err.Error(), "work in another folder") {
			t.Errorf("working in %s: %v", folder, err)
		}
	}
}

// FuzzParse: whatever a profile says, what it may write lies below the home directory.
func FuzzParse(f *testing.F) {
	for _, text := range builtin() {
		f.Add([]byte(text))
	}
	f.Add([]byte("write = [\"~/../x\", \"/\", \"~/.ssh/..\"]\ncredentials = [\"~/a\"]\nenv = [\"A\"]\nhosts = [\"*.a:1-2\"]"))
	s := ProfileSource{Dirs: []string{"/none"}, Home: "/home/u"}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := s.Parse(text)
		if err != nil {
			return
		}
		for _, path := range slices.Concat(p.Write, p.Credentials) {
			at, err := s.Path(path)
			if err != nil || at == s.Home || !strings.HasPrefix(at, s.Home+"/") || strings.HasPrefix(at+"/", s.Home+"/.ssh/") {
				t.Fatalf("%q: %s, %v", path, at, err)
			}
		}
	})
}
