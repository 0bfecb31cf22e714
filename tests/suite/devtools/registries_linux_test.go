package devtools

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// manager is a package manager, and a project that needs greet.
type manager struct {
	project map[string]string
	env     []string
	path    string // a directory that is put before PATH, if not empty
	fetch   string // a script that fetches greet, and puts something into the folder
	put     string // a file that has the greeting in it then
	// offline does the same without a network, from what was kept in the caches.
	offline string
	cache   string // where, in the home directory
}

// TestRegistries lets package managers fetch from registries on the host's
// loopback. Without a rule each is refused, and the flag that stderr then names is
// what lets it through. What it puts into the folder can be undone; what it keeps
// in its caches stays for the next session, and out of the host's home directory.
func TestRegistries(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, *registry) manager{"npm": npmCI, "go": goModDownload, "pip": pipInstall, "cargo": cargoFetch} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.TUN(t)
			r := newRegistry(t)
			m := prepare(t, r)
			s := drive.New(t, func(t testing.TB, root string) {
				for name, text := range m.project {
					write(t, filepath.Join(root, name), text)
				}
			})
			if m.path != "" {
				s.Env = append(s.Env, "PATH="+m.path+":"+os.Getenv("PATH"))
			}
			m.try(t, s, r)
			s.CheckResidue(t)
		})
	}
}

var advice = regexp.MustCompile(`(--allow-host) ([\w.-]+:\d+) would allow it`)

func (m manager) try(t *testing.T, s *drive.Sandbox, r *registry) {
	run := func(script string, flags ...string) drive.Result {
		t.Helper()
		args := append([]string{"run"}, flags...)
		for _, e := range m.env {
			args = append(args, "--env", e)
		}
		return s.Do(t, append(args, "--", "sh", "-ec", script)...)
	}
	before := s.Snapshot(t)

	refused := run(m.fetch, "--network", "allowlist")
	if refused.Code == 0 || refused.Took > time.Minute {
		t.Errorf("without a rule: exit status %d after %v", refused.Code, refused.Took)
	}
	if n := r.requests.Load(); n != 0 {
		t.Errorf("without a rule: %d requests have come through", n)
	}
	flag := advice.FindStringSubmatch(refused.Stderr)
	if flag == nil {
		t.Fatalf("without a rule: no flag is named: %s", refused.Stderr)
	}
	if len(s.History(t)) > 0 { // what it had begun
		s.Must(t, "undo")
	}
	treesnap.AssertEqual(t, before, s.Snapshot(t))

	for _, rule := range []string{flag[2], "host.sandbox.internal:" + r.port} {
		if got := run(m.fetch, "--network", "allowlist", flag[1], rule); got.Code != 0 {
			t.Fatalf("with %s %s: exit status %d\nstdout: %s\nstderr: %s", flag[1], rule, got.Code, got.Stdout, got.Stderr)
		}
		m.look(t, s)
		s.Must(t, "undo")
		treesnap.AssertEqual(t, before, s.Snapshot(t))
	}
	if r.requests.Load() == 0 {
		t.Error("the registry was not asked")
	}
	m.lookAtCaches(t, s)
	if m.offline == "" {
		return
	}
	if got := run(m.offline); got.Code != 0 {
		t.Fatalf("from the caches, without a network: exit status %d\nstdout: %s\nstderr: %s", got.Code, got.Stdout, got.Stderr)
	}
	m.look(t, s)
	s.Must(t, "undo")
	treesnap.AssertEqual(t, before, s.Snapshot(t))
}

// look looks for what was fetched in the folder.
func (m manager) look(t *testing.T, s *drive.Sandbox) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, m.put))
	if err != nil || !strings.Contains(string(text), greeting) {
		t.Errorf("%s: %q, %v", m.put, text, err)
	}
}

// lookAtCaches looks for what was kept: in an overlay, and not in the home directory.
func (m manager) lookAtCaches(t *testing.T, s *drive.Sandbox) {
	t.Helper()
	home := filepath.Join(s.State, "home")
	if ls := s.Must(t, "overlay", "ls").Stdout; !strings.Contains(ls, filepath.Join(home, m.cache)) {
		t.Errorf("overlay ls does not name %s: %s", m.cache, ls)
	}
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == filepath.Join(home, "state"): // the program's own
			return fs.SkipDir
		case !d.IsDir():
			t.Errorf("on the host: %s", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func npmCI(t *testing.T, r *registry) manager {
	require.Program(t, "node", "nodejs")
	require.Program(t, "npm", "npm")
	return manager{
		project: map[string]string{"package.json": `{"name": "app", "private": true, "dependencies": {"greet": "^1.0.0"}}`, ".npmrc": "registry=" + r.base() + "/npm/\nfetch-retries=0\nupdate-notifier=false\naudit=false\n"},
		// The first reads the packument, the second fetches the tarball.
		fetch:   "npm install --package-lock-only && npm ci && node -p 'require(\"greet\")' | grep '" + greeting + "'",
		put:     "node_modules/greet/index.js",
		offline: "npm install --package-lock-only --offline && npm ci --offline",
		cache:   ".npm",
	}
}

func goModDownload(t *testing.T, r *registry) manager {
	root, err := exec.Command(require.Program(t, "go", "golang"), "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	fetch := "go mod download && go mod tidy && go mod verify && go mod vendor"
	return manager{
		project: map[string]string{"go.mod": "module app\n\ngo 1.21\n\nrequire example.test/greet v1.0.0\n", "main.go": "package main\n\nimport \"example.test/greet\"\n\nfunc main() { println(greet.Text) }\n"},
		env:     []string{"GOPROXY=" + r.base() + "/go", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOFLAGS="},
		path:    filepath.Join(drive.Visible(t, strings.TrimSpace(string(root))), "bin"),
		fetch:   fetch, put: "vendor/example.test/greet/greet.go",
		offline: "GOPROXY=off; export GOPROXY; " + fetch,
		cache:   "go/pkg",
	}
}

func pipInstall(t *testing.T, r *registry) manager {
	// Debian's: another one on PATH may be where a jail does not show it.
	const python = "/usr/bin/python3"
	if err := exec.Command(python, "-m", "pip", "--version").Run(); err != nil {
		require.Missing(t, "pip of "+python, "apt-get install python3-pip")
	}
	return manager{
		env:   []string{"PIP_CONFIG_FILE=/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_RETRIES=0", "PIP_INDEX_URL=" + r.base() + "/pypi/simple/", "PIP_TRUSTED_HOST=host.sandbox.internal"},
		fetch: python + " -m pip install --target lib greet && PYTHONPATH=lib " + python + " -c 'import greet; print(greet.text)' | grep '" + greeting + "'",
		put:   "lib/greet.py",
		cache: "cache", // XDG_CACHE_HOME
	}
}

func cargoFetch(t *testing.T, r *registry) manager {
	root := rustToolchain(t)
	return manager{
		project: map[string]string{
			"Cargo.toml":  "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\ngreet = { version = \"1\", registry = \"local\" }\n",
			"src/main.rs": "fn main() { println!(\"{}\", greet::TEXT) }\n", ".cargo/config.toml": "[registries.local]\nindex = \"sparse+" + r.base() + "/cargo/\"\n[net]\nretry = 0\n",
		},
		env:     []string{"LD_LIBRARY_PATH=" + drive.Visible(t, filepath.Join(root, "lib"))},
		path:    drive.Visible(t, filepath.Join(root, "bin")),
		fetch:   "cargo fetch && cargo vendor --versioned-dirs",
		put:     "vendor/greet-1.0.0/src/lib.rs",
		offline: "cargo fetch --offline && cargo vendor --offline --versioned-dirs",
		cache:   ".cargo",
	}
}

// rustToolchain returns where cargo and rustc are. It ends the test if cargo is not there,
// or does not know sparse registries.
func rustToolchain(t *testing.T) string {
	t.Helper()
	const missing = "no cargo of 1.68 or newer (https://rustup.rs): that of Debian 12 is older, so CI does not install it"
	out, err := exec.Command("rustc", "--print", "sysroot").Output()
	if err != nil {
		t.Skip(missing)
	}
	root := strings.TrimSpace(string(out))
	out, err = exec.Command(filepath.Join(root, "bin", "cargo"), "--version").Output()
	var minor int
	if err == nil {
		_, err = fmt.Sscanf(string(out), "cargo 1.%d.", &minor)
	}
	if err != nil || minor < 68 {
		t.Skip(missing)
	}
	return root
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
