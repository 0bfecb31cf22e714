package approval

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// What git is told to run from a folder is found as git itself finds it.
func TestW8Targets(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string // "H/" is the home directory, "W/" the folder
		want  []string
	}{
		"none":             {map[string]string{"W/.git/config": "[core]\n\tbare = false\n"}, nil},
		"hooks":            {map[string]string{"W/.git/config": "[core]\n\thooksPath = .husky/_\n"}, []string{".husky/_"}},
		"one line":         {map[string]string{"W/.git/config": "[CORE]HooksPath=\"my hooks\" ; x\n"}, []string{"my hooks"}},
		"absolute":         {map[string]string{"W/.git/config": "[core]\nhookspath = \"W/tools/hooks\"\n"}, []string{"tools/hooks"}},
		"outside":          {map[string]string{"W/.git/config": "[core]\nhookspath = ../hooks\n[include]\npath = ../../../x\n"}, nil},
		"the user's":       {map[string]string{"W/.git/config": "", "H/.gitconfig": "[core]\nhooksPath = .githooks\n"}, []string{".githooks"}},
		"the user's other": {map[string]string{"W/.git/config": "", "H/.config/git/config": "[core]\nhooksPath = .githooks\n"}, []string{".githooks"}},
		"includes": {map[string]string{"W/.git/config": "[include]\npath = ../a.cfg\n[includeIf \"gitdir:/x]/\"]\npath = b\\\n.cfg\n", "W/a.cfg": "[include]\npath=sub/c.cfg\n", "W/sub/c.cfg": "[core]\nhooksPath=h\n"},
			[]string{"a.cfg", "sub/c.cfg", "h", ".git/b.cfg"}},
		"each other":  {map[string]string{"W/.git/config": "[include]\npath = ../a\n", "W/a": "[include]\npath = a\n\tpath = .git/config"}, []string{"a", "a", ".git/config"}},
		"by home":     {map[string]string{"W/.git/config": "[include]\npath = ~/w/shared\n"}, []string{"shared"}},
		"a submodule": {map[string]string{"W/.git": "gitdir: ../super/modules/w\n", "H/super/modules/w/config": "[core]\nhooksPath=h\n"}, []string{"h"}},
		"a worktree": {map[string]string{"W/.git": "gitdir: H/main/.git/worktrees/w\n", "H/main/.git/worktrees/w/commondir": "../..\n", "H/main/.git/worktrees/w/config.worktree": "[core]\nhooksPath=h2\n", "H/main/.git/config": "[core]\nhooksPath=h\n"},
			[]string{"h", "h2"}},
		"a link": {map[string]string{"W/.git/config": "[core]\nhooksPath=l/x\n", "W/real/x/pre-commit": "", "W/l": "-> real"}, []string{"l/x", "real/x"}},
	} {
		home, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		work := filepath.Join(home, "w")
		t.Setenv("HOME", home)
		t.Setenv("XDG_CONFIG_HOME", "")
		at := strings.NewReplacer("H/", home+"/", "W/", work+"/")
		for file, text := range c.files {
			path := at.Replace(file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if to, ok := strings.CutPrefix(text, "-> "); ok {
				err = os.Symlink(to, path)
			} else {
				err = os.WriteFile(path, []byte(at.Replace(text)), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, names := range Targets(work) {
			got = append(got, strings.Join(names, "/"))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What git reads in a configuration is found in it.
func FuzzGitSettings(f *testing.F) {
	git, err := exec.LookPath("git")
	if err != nil {
		f.Skip("no git: apt-get install git")
	}
	for _, s := range []string{
		"[core]\n\thooksPath = .husky # x\n", "[include]\npath = \"a b\" c ; d\n", "[includeIf \"x \\\"]y\"]\npath = a\\\n  b\n", "[core]hooksPath=a\t b  \n[a.b]\nc = \"\\t\\\\\"\n", "; x\n[core]\nbare\nhooksPath = \"#\"\"\\n\"",
		"[core]\nhooksPath = a\\", "[core]\nhooksPath = a  \\", "[core]\nhooksPath = \\", "[core]\nhooksPath = a \\\n  \n[core]\nhooksPath = \\\n  b", "[core]\nhooksPath = \"\" a \\\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := gitSettings(text)
		if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\r\v\f\b") {
			return
		}
		cmd := exec.Command(git, "config", "--null", "--no-includes", "--list", "--file", "-")
		cmd.Stdin, cmd.Env = strings.NewReader(text), []string{"HOME=/", "GIT_CONFIG_NOSYSTEM=1"}
		out, err := cmd.Output()
		if err != nil {
			return // git does not read it either
		}
		var want []gitSetting
		for item := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			key, value, ok := strings.Cut(item, "\n")
			if ok && strings.Contains(key, ".") && key[0] != '.' { // a section has a name
				want = append(want, gitSetting{strings.ToLower(key[:strings.IndexByte(key, '.')] + key[strings.LastIndexByte(key, '.'):]), value})
			}
		}
		for _, w := range want {
			blanks := func(g gitSetting) bool { // versions of git differ in what a tab within a value becomes
				return g.key == w.key && strings.ReplaceAll(g.value, "\t", " ") == strings.ReplaceAll(w.value, "\t", " ")
			}
			if !slices.ContainsFunc(got, blanks) {
				t.Errorf("%q\n is %q,\n git says %q", text, got, want)
			}
		}
	})
}
