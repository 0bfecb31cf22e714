package jail

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestView: what the system and tool chains need is open, and all else is behind gates.
func TestView(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(root, "home/me")
	for _, path := range []string{
		"usr/bin/cc", "lib/x", "library/secret", "opt/sdk/bin/tool", "opt/sdk/lib/x", "opt/tools/bin/only", "var/cache/x", "var/log/x", "closed/x", "srv/",
		"home/me/.rustup/toolchains/x", "home/me/.cargo/bin/cargo", "home/me/.cargo/credentials", "home/me/Documents/bin/mine", "home/me/Documents/taxes",
		"home/me/.config/git/config", "home/me/.bashrc", "home/me/dotfiles/vimrc", "home/me/bin/script", "home/me/jdk/release", "home/other/x", "home/me/.ssh/id",
	} {
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(path, "/") {
			err = os.WriteFile(full, nil, 0o644)
		} else {
			err = os.MkdirAll(full, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"home/me/.vimrc": "dotfiles/vimrc", "var/run": "/run"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	in := func(paths ...string) []string { return inside(root, paths) }
	environment := map[string]string{
		"PATH": strings.Join(in("usr/bin", "opt/sdk/bin", "opt/tools/bin", "home/me/bin", "home/me/Documents/bin", "home/me/.cargo/bin", "none/bin"), ":"), "JAVA_HOME": filepath.Join(home, "jdk"),
		"GOROOT": home, // it is no tool chain
	}
	v := dynamicOf(dynamicOptions{
		Root: root, Home: home, Getenv: func(name string) string { return environment[name] }, Show: in("home/me/.ssh/id", "var/log"),
		Blocked: func(dir string) bool { return dir == filepath.Join(root, "closed") },
	})
	for _, c := range []struct {
		what      string
		got, want []string
	}{
		{"gates", v.Gates, in("home", "library", "opt", "var", "home/me")},
		{"empty", v.Empty, in("srv")},
		{"open", v.Open, in("home/me/.cargo/bin", "home/me/.rustup", "home/me/Documents/bin", "home/me/bin", "home/me/jdk", "opt/sdk", "opt/tools/bin", "var/cache", "var/log")},
		{"allowed", v.Allowed, in("home/me/.bashrc", "home/me/.config/git/config", "home/me/.ssh/id", "home/me/.vimrc", "home/me/dotfiles/vimrc", "var/run")},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %q, not %q", c.what, c.got, c.want)
		}
	}
	if v := dynamicOf(dynamicOptions{Root: root, Getenv: func(string) string { return "" }, Blocked: func(string) bool { return false }}); slices.Contains(v.Gates, home) || len(v.Ways) > 0 {
		t.Errorf("without a home directory: %+v", v)
	}
}
