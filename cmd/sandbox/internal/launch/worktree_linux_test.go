package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=e", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// repo makes a repository with a commit, and a linked worktree of it.
func repo(t *testing.T) (dir, main, linked string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	main, linked = filepath.Join(dir, "main"), filepath.Join(dir, "linked")
	git(t, dir, "init", "-q", "main")
	git(t, main, "commit", "-q", "--allow-empty", "-m", "m")
	git(t, main, "worktree", "add", "-q", linked)
	return dir, main, linked
}

func TestGitMadeThem(t *testing.T) {
	dir, main, linked := repo(t)
	git(t, dir, "init", "-q", "super")
	super := filepath.Join(dir, "super")
	git(t, super, "submodule", "--quiet", "add", main, "sub")
	git(t, super, "commit", "-q", "-m", "m")
	git(t, super, "worktree", "add", "-q", filepath.Join(super, "trees", "x"))
	deep := filepath.Join(super, "trees", "x")
	git(t, deep, "submodule", "--quiet", "update", "--init")
	for folder, want := range map[string]string{
		main:                        "",
		linked:                      filepath.Join(main, ".git"),
		filepath.Join(super, "sub"): filepath.Join(super, ".git", "modules", "sub"),
		super:                       "",
		deep:                        filepath.Join(super, ".git"),
		filepath.Join(deep, "sub"):  filepath.Join(super, ".git", "worktrees", "x", "modules", "sub"),
		dir:                         "",
	} {
		if have, err := GitDirectory(folder); err != nil || have != want {
			t.Errorf("%s: %q, %v; want %q", folder, have, err, want)
		}
	}
}

// TestWhatIsNotJoined: a .git file that what runs inside may have written.
func TestWhatIsNotJoined(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, dir, main, linked string)
		want string // in the error; empty: there is nothing to join, and nothing wrong
	}{
		"nonsense":       {func(t *testing.T, _, _, l string) { write(t, l+"/.git", "x") }, "is not 'gitdir: PATH'"},
		"nothing":        {func(t *testing.T, _, _, l string) { write(t, l+"/.git", "gitdir: \n") }, "is not 'gitdir: PATH'"},
		"several lines":  {func(t *testing.T, _, m, l string) { write(t, l+"/.git", "gitdir: "+m+"/.git\nx\n") }, "is not 'gitdir: PATH'"},
		"nowhere":        {func(t *testing.T, _, _, l string) { write(t, l+"/.git", "gitdir: /none/at/all\n") }, "leads nowhere"},
		"the repository": {func(t *testing.T, _, m, l string) { write(t, l+"/.git", "gitdir: "+m+"/.git\n") }, "names no worktree"},
		"a home": {func(t *testing.T, d, _, l string) {
			write(t, d+"/home/.ssh/id", "s")
			write(t, l+"/.git", "gitdir: ../home\n")
		}, "no git directory"},
		"the root": {func(t *testing.T, _, _, l string) { write(t, l+"/.git", "gitdir: /\n") }, "no git directory"},
		"a circle": {func(t *testing.T, _, _, l string) { write(t, l+"/.git", "gitdir: .git\n") }, ""},
		"a loop of links": {func(t *testing.T, d, _, l string) {
			link(t, d+"/b", d+"/a")
			link(t, d+"/a", d+"/b")
			write(t, l+"/.git", "gitdir: ../a\n")
		}, "leads nowhere"},
		"inside":    {func(t *testing.T, _, _, l string) { write(t, l+"/x/HEAD", ""); write(t, l+"/.git", "gitdir: x\n") }, ""},
		"a symlink": {func(t *testing.T, _, m, l string) { remove(t, l+"/.git"); link(t, m+"/.git", l+"/.git") }, ""},
		"another's entry": {func(t *testing.T, d, m, l string) {
			git(t, m, "worktree", "add", "-q", d+"/other")
			write(t, l+"/.git", "gitdir: "+m+"/.git/worktrees/other\n")
		}, "the entry of another worktree"},
		"another repository": {func(t *testing.T, d, m, _ string) {
			git(t, d, "init", "-q", "third")
			write(t, m+"/.git/worktrees/linked/commondir", d+"/third/.git\n")
		}, "belongs to another repository"},
		"an entry that is none": {func(t *testing.T, d, m, l string) {
			write(t, d+"/fake/x/commondir", "../..\n")
			write(t, d+"/fake/x/gitdir", l+"/.git\n")
			write(t, l+"/.git", "gitdir: "+d+"/fake/x\n")
		}, "no entry of a repository's worktrees"},
		"no repository": {func(t *testing.T, d, m, l string) {
			write(t, d+"/fake/worktrees/x/commondir", "../..\n")
			write(t, d+"/fake/worktrees/x/gitdir", l+"/.git\n")
			write(t, l+"/.git", "gitdir: "+d+"/fake/worktrees/x\n")
		}, "it has no HEAD"},
		"another submodule's": {func(t *testing.T, d, m, l string) {
			git(t, d, "init", "-q", "third")
			git(t, d+"/third", "config", "core.worktree", "../..")
			write(t, l+"/.git", "gitdir: ../third/.git\n")
		}, "the git directory of another folder"},
		"above the folder": {func(t *testing.T, d, m, l string) {
			for _, name := range []string{"objects", "refs"} {
				write(t, d+"/"+name+"/x", "")
			}
			write(t, d+"/HEAD", "")
			write(t, d+"/config", "[core]\n\tworktree = \""+l+"\"\n")
			write(t, l+"/.git", "gitdir: ..\n")
		}, "contain each other"},
		"a pipe": {func(t *testing.T, _, m, _ string) {
			remove(t, m+"/.git/worktrees/linked/gitdir")
			if err := syscall.Mkfifo(m+"/.git/worktrees/linked/gitdir", 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
		"too large": {func(t *testing.T, _, _, l string) { write(t, l+"/.git", "gitdir: "+strings.Repeat("x", maxBytes)) }, "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, main, linked := repo(t)
			c.make(t, dir, main, linked)
			have, err := GitDirectory(linked)
			if have != "" || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q, %v; want %q", have, err, c.want)
			}
		})
	}
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// FuzzPointer: whatever stands in the files, nothing is named that was not checked.
func FuzzPointer(f *testing.F) {
	f.Add([]byte("gitdir: ../main/.git/worktrees/linked\n"), []byte("[core]\n\tworktree = \"../../x\"\n"))
	f.Add([]byte("gitdir: \x00"), []byte("[core \"x\"]\nworktree"))
	f.Fuzz(func(t *testing.T, dotGit, config []byte) {
		if path, ok := pointer(dotGit, "/folder"); ok && (!filepath.IsAbs(path) || strings.ContainsRune(path, 0)) {
			t.Fatalf("%q names %q", dotGit, path)
		}
		if value, ok := coreWorktree(config); ok && value == "" {
			t.Fatalf("%q names nothing", config)
		}
	})
}
