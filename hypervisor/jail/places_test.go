//go:build linux

package jail_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// ownHome makes a home directory of the workload's that no temporary place of the jail
// covers, and HOME name it.
func ownHome(t *testing.T) string {
	t.Helper()
	base := os.Getenv("HOME")
	if os.Getuid() == 0 {
		base = "/var/lib"
	}
	home, err := os.MkdirTemp(base, "jail-home-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	for _, name := range []string{"XDG_CACHE_HOME", "GOCACHE", "GOPATH", "GOMODCACHE", "CARGO_HOME", "npm_config_cache", "PNPM_HOME"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	give(t, home)
	return home
}

// give makes a file or directory the workload's.
func give(t *testing.T, path string) {
	t.Helper()
	if os.Getuid() == 0 {
		if err := os.Lchown(path, jail.AnonymousUID, jail.AnonymousUID); err != nil {
			t.Fatal(err)
		}
	}
}

// put writes a file of the workload's, and the directories on the way below home.
func put(t *testing.T, home, rel, text string) string {
	t.Helper()
	at := home
	for part := range strings.SplitSeq(filepath.Dir(rel), "/") {
		at = filepath.Join(at, part)
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		give(t, at)
	}
	at = filepath.Join(home, rel)
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	give(t, at)
	return at
}

// same fails if a file of the host does not hold text; absent if text is empty.
func same(t *testing.T, path, text string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if text == "" && !errors.Is(err, fs.ErrNotExist) || text != "" && string(data) != text {
		t.Errorf("%s holds %q (%v), want %q", path, data, err, text)
	}
}

func withPlaces(p hypervisor.Places) func(*hypervisor.Config) {
	return func(c *hypervisor.Config) { c.Places = p }
}

// TestPlacesCache: a cache can be written inside, and is not outside. What was written is there
// for the next session; it can be looked at, put into the host's cache, or thrown away.
func TestPlacesCache(t *testing.T) {
	home := ownHome(t)
	old := put(t, home, ".cache/tool/old", "host")
	put(t, home, ".cache/tool/gone", "host")
	put(t, home, ".cache/whole/a", "host")
	token := put(t, home, ".cache/huggingface/token", "secret")
	put(t, home, ".cache/huggingface/model", "host")
	store := places.Store{Dir: filepath.Join(t.TempDir(), "store")}
	p := hypervisor.Places{Store: store.Dir, Caches: true, Home: true}
	j := start(t, withPlaces(p))
	j.sh("cd ~/.cache && echo inside >tool/old && rm tool/gone && echo new >tool/new && mkdir -p fresh/dir && touch fresh/dir/f && rm -r whole && mkdir whole && echo w >whole/b")
	j.sh("cat ~/.cache/huggingface/model; echo x >~/.cache/huggingface/more")
	j.refused("cat ~/.cache/huggingface/token", "No such file")
	j.sh("echo forged >~/.cache/huggingface/token; ln -s /etc/passwd ~/.cache/link; mkfifo ~/.cache/fifo; touch ~/.cache/suid; chmod 6777 ~/.cache/suid")
	same(t, old, "host")
	same(t, filepath.Join(home, ".cache/tool/new"), "")
	stop(t, j)

	j = start(t, withPlaces(p)) // the next
	if out := j.sh("cd ~/.cache && cat tool/old tool/new && ls whole && ls fresh"); out != "inside\nnew\nb\ndir" {
		t.Errorf("the next session sees %q", out)
	}
	j.refused("cat ~/.cache/tool/gone ~/.cache/huggingface/token | grep secret", "No such file")
	list, err := store.List()
	if err != nil || len(list) == 0 || list[0].Path != filepath.Join(home, ".cache") || list[0].PID == 0 || list[0].Bytes == 0 {
		t.Fatalf("List: %+v, %v", list, err)
	}
	if err := list[0].Discard(); !errors.Is(err, places.ErrInUse) {
		t.Errorf("Discard of what a session has: %v", err)
	}
	stop(t, j)

	changes, err := list[0].Changes()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		rel, _ := filepath.Rel(home, c.Path)
		got = append(got, string(c.Kind)+" "+rel)
	}
	want := []string{
		"added .cache/fifo", "added .cache/fresh", "added .cache/fresh/dir", "added .cache/fresh/dir/f", "added .cache/huggingface/more", "modified .cache/huggingface/token",
		"added .cache/link", "added .cache/suid", "deleted .cache/tool/gone", "added .cache/tool/new", "modified .cache/tool/old",
		"replaced .cache/whole", "added .cache/whole/b",
	}
	if !slices.Equal(got, want) {
		t.Errorf("changes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	done, err := list[0].Apply([]string{token})
	if err != nil || len(done.Skipped) != 2 {
		t.Errorf("Apply: %+v, %v", done, err)
	}
	same(t, old, "inside\n")
	same(t, token, "secret")
	same(t, filepath.Join(home, ".cache/tool/gone"), "")
	same(t, filepath.Join(home, ".cache/whole/a"), "")
	same(t, filepath.Join(home, ".cache/whole/b"), "w\n")
	if info, err := os.Lstat(filepath.Join(home, ".cache/suid")); err != nil || info.Mode() != 0o777 {
		t.Errorf("the file with the set-user-ID bit: %v, %v", info, err)
	}
	if target, _ := os.Readlink(filepath.Join(home, ".cache/link")); target != "/etc/passwd" {
		t.Errorf("the link leads to %q", target)
	}
	if changes, err = list[0].Changes(); err == nil && len(changes) > 0 {
		t.Errorf("left after Apply: %v", changes)
	}

	j = start(t, withPlaces(p))
	j.sh("echo y >~/.cache/more")
	stop(t, j)
	if err := list[0].Discard(); err != nil {
		t.Error(err)
	}
	if list, err = store.List(); err != nil || slices.ContainsFunc(list, func(e places.Entry) bool { return e.Path == filepath.Join(home, ".cache") }) {
		t.Errorf("left after Discard: %v, %v", list, err)
	}
	same(t, filepath.Join(home, ".cache/more"), "")
}

// TestPlacesAlone: a cache that the host does not have is kept without an overlay. The next session sees it, also over what the host has by then, and what
// the kernel would take for its own marks uncovers nothing.
func TestPlacesAlone(t *testing.T) {
	home := ownHome(t)
	p := hypervisor.Places{Store: filepath.Join(t.TempDir(), "store"), Caches: true, Home: true}
	overlaid := func(j *jailed) bool {
		return strings.Contains(j.sh("grep ' "+home+"/.cache ' /proc/self/mountinfo"), " - overlay ")
	}
	j := start(t, withPlaces(p))
	if overlaid(j) {
		t.Error("there is nothing to lay an overlay over")
	}
	j.sh("cd ~/.cache && mkdir -p d/e plain && echo inside >d/f && mv d/e d/g && echo k >key && ln -s / up && mkdir -m 6777 s")
	for _, mark := range []string{"opaque=y", "redirect=/secret", "metacopy="} {
		name, value, _ := strings.Cut(mark, "=")
		j.sh("cd ~/.cache && { setfattr -n user.overlay." + name + " -v '" + value + "' plain || python3 -c \"import os; os.setxattr('plain', 'user.overlay." + name + "', b'" + value + "')\" || true; } 2>/dev/null")
	}
	same(t, filepath.Join(home, ".cache/d/f"), "")
	stop(t, j)

	put(t, home, ".cache/d/h", "host")
	put(t, home, ".cache/plain/p", "host")
	token := put(t, home, ".cache/huggingface/token", "secret")
	j = start(t, withPlaces(p))
	if !overlaid(j) {
		t.Error("the host's directory has no overlay over it")
	}
	if out := j.sh("cd ~/.cache/d && cat f h && ls"); out != "inside\nhostf\ng\nh" {
		t.Errorf("the next session sees %q", out)
	}
	j.refused("cat ~/.cache/huggingface/token ~/.cache/plain/token | grep secret", "No such file")
	j.sh("rm ~/.cache/d/h; echo more >~/.cache/d/f")
	same(t, filepath.Join(home, ".cache/d/h"), "host")
	same(t, token, "secret")
	stop(t, j)

	if err := os.RemoveAll(filepath.Join(home, ".cache")); err != nil {
		t.Fatal(err)
	}
	j = start(t, withPlaces(p))
	if out := j.sh("cat ~/.cache/d/f; ls ~/.cache/d"); out != "more\nf\ng" {
		t.Errorf("without the host's directory the next session sees %q", out)
	}
	stop(t, j)
}

// stop ends a guest before its test does.
func stop(t *testing.T, j *jailed) {
	t.Helper()
	if err := j.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestPlacesTogether: two sessions at once have an upper layer each, and both stay.
func TestPlacesTogether(t *testing.T) {
	home := ownHome(t)
	put(t, home, ".cache/f", "host")
	p := hypervisor.Places{Store: filepath.Join(t.TempDir(), "store"), Caches: true, Home: true}
	one := start(t, withPlaces(p))
	one.sh("echo one >~/.cache/f")
	two := start(t, withPlaces(p))
	if out := two.sh("cat ~/.cache/f; echo two >~/.cache/f"); out != "host" {
		t.Errorf("the second session sees %q", out)
	}
	if out := one.sh("cat ~/.cache/f"); out != "one" {
		t.Errorf("the first session sees %q", out)
	}
	stop(t, one)
	stop(t, two)
	for _, want := range []string{"one", "two"} { // the slots, in their order
		if out := start(t, withPlaces(p)).sh("cat ~/.cache/f"); out != want {
			t.Errorf("%q, want %q", out, want)
		}
	}
}

// TestPlacesHome: the home directory can be written, for as long as the session lives, and secrets stay
// hidden. What has no leading dot is as the host has it.
func TestPlacesHome(t *testing.T) {
	home := ownHome(t)
	config := put(t, home, ".config/app/conf", "host")
	put(t, home, ".ssh/id", "secret")
	put(t, home, ".config/gh/hosts.yml", "secret")
	put(t, home, ".npmrc", "secret")
	put(t, home, "src/f", "host")
	p := hypervisor.Places{Store: filepath.Join(t.TempDir(), "store"), Caches: true, Home: true}
	j := start(t, withPlaces(p))
	j.sh("echo inside >~/.config/app/conf; echo n >~/.gitconfig; mkdir ~/.newtool; mkdir ~/.cache && echo c >~/.cache/c || echo c >~/.cache/c")
	j.refused("echo x >~/src/f", "Read-only")
	j.refused("cat ~/.ssh/id", "No such")
	j.refused("cat ~/.config/gh/hosts.yml", "No such")
	j.refused("cat ~/.npmrc", "No such")
	put(t, home, "src/later", "host")
	if out := j.sh("cat ~/src/later ~/.config/app/conf"); out != "hostinside" {
		t.Errorf("inside: %q", out)
	}
	same(t, config, "host")
	same(t, filepath.Join(home, ".gitconfig"), "")
	same(t, filepath.Join(home, ".newtool"), "")
	stop(t, j)
	j = start(t, withPlaces(p))
	j.refused("cat ~/.gitconfig", "No such")
	if out := j.sh("cat ~/.config/app/conf ~/.cache/c"); out != "hostc" {
		t.Errorf("in the next session: %q", out)
	}
}

// TestPlacesGo: the go command builds inside with its cache where it is, and writes nothing to the host's.
func TestPlacesGo(t *testing.T) {
	env := exec.Command("go", "env", "GOROOT")
	env.Dir, env.Env = t.TempDir(), append(os.Environ(), "GOTOOLCHAIN=local") // not one in somebody's home
	goroot, err := env.Output()
	if err != nil {
		t.Fatal(err)
	}
	home := ownHome(t)
	cache := filepath.Join(home, "gobuild")
	put(t, home, "gobuild/README", "host")
	t.Setenv("GOCACHE", cache)
	p := hypervisor.Places{Store: filepath.Join(t.TempDir(), "store"), Caches: true, Home: true}
	j := start(t, withPlaces(p))
	j.sh("printf 'module m\\ngo 1.21\\n' >go.mod; printf 'package m\\nfunc F() int { return 1 }\\n' >m.go")
	build := "export GOCACHE=" + cache + " GOTOOLCHAIN=local GOFLAGS=-mod=mod; '" + strings.TrimSpace(string(goroot)) + "/bin/go' build ./..."
	j.sh(build)
	if n := j.sh("find " + cache + " -type f | wc -l"); n == "1" {
		t.Error("the go command has kept nothing")
	}
	stop(t, j)
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 1 {
		t.Errorf("the host's cache holds %v (%v)", entries, err)
	}
}

// TestPlacesWritable: what is named is written as it is, and a secret in it stays hidden.
func TestPlacesWritable(t *testing.T) {
	home := ownHome(t)
	put(t, home, "data/f", "host")
	put(t, home, "data/key", "secret")
	data := filepath.Join(home, "data")
	j := start(t, func(c *hypervisor.Config) {
		c.Places.Writable = []string{data}
		c.Hide = []string{filepath.Join(data, "key")}
	})
	j.sh("echo inside >" + data + "/f; echo made >" + data + "/made")
	j.refused("cat "+data+"/key", "Permission denied")
	same(t, filepath.Join(data, "f"), "inside\n")
	same(t, filepath.Join(data, "made"), "made\n")
	j.refused("echo x >"+home+"/.other", "Read-only")
}

// TestPlacesRefused: nothing is opened up that nobody may mean.
func TestPlacesRefused(t *testing.T) {
	home := ownHome(t)
	put(t, home, ".ssh/keys/id", "secret")
	file := put(t, home, "file", "host")
	if err := os.Symlink(filepath.Join(home, ".ssh/keys"), filepath.Join(home, "innocent")); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(t.TempDir(), "work")
	if err := os.MkdirAll(filepath.Join(work, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(t.TempDir(), "store")
	for _, c := range []struct{ path, want string }{
		{"/", "whole file system"}, {"relative", "not absolute"}, {"/proc/sys", "/proc"}, {"/run", "/run"}, {"/sys/fs", "/sys"},
		{work, "working folder"}, {filepath.Join(work, "in"), "working folder"}, {filepath.Dir(work), "working folder"},
		{filepath.Join(home, ".ssh"), "hidden"}, {filepath.Join(home, ".ssh/keys"), "hidden"}, {filepath.Join(home, "innocent"), "hidden"},
		{filepath.Join(home, "missing"), "no such file"}, {othersHome(t), "home directory of"}, {filepath.Dir(store), "is kept in it"},
	} {
		for _, overlay := range []bool{true, false} {
			cfg := hypervisor.Config{UID: -1, GID: -1, Shares: []hypervisor.Share{share(work, nil)}, Places: hypervisor.Places{Store: store, Writable: []string{c.path}}}
			if overlay {
				cfg.Places.Overlay, cfg.Places.Writable = cfg.Places.Writable, nil
			}
			refusedStart(t, cfg, c.want)
		}
	}
	refusedStart(t, hypervisor.Config{UID: -1, GID: -1, Places: hypervisor.Places{Store: store, Overlay: []string{file}}}, "only a directory")
	if os.Getuid() == 0 {
		refusedStart(t, hypervisor.Config{UID: -1, GID: -1, Places: hypervisor.Places{Store: store, Writable: []string{"/etc"}}}, "belongs to user 0")
	}
}

func othersHome(t *testing.T) string {
	if os.Getuid() != 0 {
		return "/root"
	}
	t.Helper()
	return "/home" // holds those of others
}

func refusedStart(t *testing.T, cfg hypervisor.Config, want string) {
	t.Helper()
	need(t)
	g, err := newRuntime().Start(t.Context(), cfg)
	if err == nil {
		_ = g.Stop(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v: %v, want %q", cfg.Places, err, want)
	}
}

// TestPlacesMapped: what is root's in a cache is the workload's inside.
func TestPlacesMapped(t *testing.T) {
	require.Root(t) // an ordinary user's caches are their own
	home := ownHome(t)
	if err := os.Chown(home, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(home, ".cache/deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(home, ".cache/deep/old")
	if err := os.WriteFile(old, []byte("host"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "private"), []byte("root's"), 0o644); err != nil {
		t.Fatal(err)
	}
	j := start(t, withPlaces(hypervisor.Places{Store: filepath.Join(t.TempDir(), "store"), Caches: true, Home: true}))
	if out := j.sh("cat ~/.cache/deep/old; echo more >>~/.cache/deep/old; echo new >~/.cache/deep/new; test -O ~/.cache/deep/old && echo c >~/.conf"); out != "host" {
		t.Errorf("inside: %q", out)
	}
	j.refused("cat ~/private", "No such")
	same(t, old, "host")
	same(t, filepath.Join(home, ".cache/deep/new"), "")
	same(t, filepath.Join(home, ".conf"), "")
}

// TestPlacesWithout: where there can be no overlay, the session starts, says so, and
// nothing of the host is written.
func TestPlacesWithout(t *testing.T) {
	home := ownHome(t)
	old := put(t, home, ".cache/f", "host")
	module := put(t, home, "go/pkg/f", "host")
	store := filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(store, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j := start(t, withPlaces(hypervisor.Places{Store: store, Caches: true, Home: true}))
	j.refused("cat ~/.cache/f", "No such")
	j.sh("echo x >~/.cache/f; cat ~/go/pkg/f")
	j.refused("echo x >~/go/pkg/f", "Read-only")
	j.refused("echo x >~/.conf", "Read-only")
	same(t, old, "host")
	same(t, module, "host")
	if w := j.Facts()["warnings"]; !strings.Contains(w, "no overlays: ") || !strings.Contains(w, filepath.Join(home, ".cache")) {
		t.Errorf("warnings: %q", w)
	}
}
