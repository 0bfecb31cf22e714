package places

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/hypervisor/jail/mounts"
)

// Cache is a directory of a compiler's or package manager's own.
type Cache struct {
	Path string
	// Stock: without an overlay it stays as the host has it. An empty one would be worse.
	Stock bool
}

var caches = []struct {
	variable string // of the environment, which names it
	below    string // in what the variable names
	home     string // where it is otherwise, in the home directory; empty: in another cache
	tool     string // a program that makes it; empty: none does
	stock    bool
}{
	{variable: "XDG_CACHE_HOME", home: ".cache"},
	{variable: "GOCACHE"},
	{variable: "GOPATH", below: "pkg", home: "go/pkg", tool: "go", stock: true},
	{variable: "GOMODCACHE", stock: true},
	{variable: "CARGO_HOME", home: ".cargo", tool: "cargo", stock: true},
	{variable: "npm_config_cache", home: ".npm", tool: "npm"},
	{variable: "PNPM_HOME", home: ".local/share/pnpm", tool: "pnpm", stock: true},
	{variable: "YARN_CACHE_FOLDER", home: ".yarn", tool: "yarn"},
	{variable: "PIP_CACHE_DIR"},
	{variable: "UV_CACHE_DIR"},
	{home: ".m2/repository", tool: "mvn", stock: true},
	{variable: "GRADLE_USER_HOME", home: ".gradle", tool: "gradle", stock: true},
	{variable: "CCACHE_DIR", home: ".ccache"},
}

// Caches are the caches of a user: those that the environment names, those that are there, and
// those of programs that are there. home may be empty.
func Caches(home string) []Cache {
	var out []Cache
	for _, c := range caches {
		path := ""
		if v := os.Getenv(c.variable); c.variable != "" && v != "" {
			v, _, _ = strings.Cut(v, string(filepath.ListSeparator)) // GOPATH is a list
			path = filepath.Join(v, c.below)
		} else if c.home != "" && home != "" {
			path = filepath.Join(home, c.home)
			if _, err := os.Stat(path); err != nil && c.home != ".cache" && !installed(c.tool) {
				continue
			}
		}
		if filepath.IsAbs(path) {
			out = append(out, Cache{Path: mounts.Resolve(path), Stock: c.stock})
		}
	}
	return out
}

func installed(tool string) bool {
	_, err := exec.LookPath(tool)
	return tool != "" && err == nil
}

// Policy says what may be opened up.
type Policy struct {
	Home    string   // the workload's
	UID     int      // the workload's
	Folders []string // working folders
	Hidden  []string
	Store   string // where overlays are kept
}

// Allows returns why a path must not be written inside, or nil.
func (p Policy) Allows(path string) error {
	if !filepath.IsAbs(path) {
		return errors.New("the path is not absolute")
	}
	path = mounts.Resolve(path)
	if path == "/" {
		return errors.New("the whole file system cannot be opened up: name what is to be written")
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/var/run"} {
		if mounts.Below(path, mounts.Resolve(dir)) {
			return fmt.Errorf("%s is the jail's own or the kernel's", dir)
		}
	}
	for _, f := range p.Folders {
		if mounts.Below(path, f) {
			return fmt.Errorf("it lies in the working folder %s, which can be written and undone", f)
		}
		if mounts.Below(f, path) {
			return fmt.Errorf("the working folder %s lies in it: what is written there could not be undone", f)
		}
	}
	if p.Store != "" && mounts.Below(mounts.Resolve(p.Store), path) {
		return fmt.Errorf("what is written to overlays is kept in it (%s)", p.Store)
	}
	for _, h := range p.Hidden {
		if mounts.Below(path, h) {
			return fmt.Errorf("it is hidden inside, as %s is: it may hold secrets", h)
		}
	}
	return p.othersHome(path)
}

// othersHome returns an error if path lies in another user's home directory, or holds one.
func (p Policy) othersHome(path string) error {
	data, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return nil
	}
	own := []string{p.Home, mounts.Resolve(os.Getenv("HOME"))}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 6 || !filepath.IsAbs(f[5]) || f[5] == "/" {
			continue
		}
		uid, err := strconv.Atoi(f[2])
		const first, nobody = 1000, 65534 // of people, as distributions number them
		if err != nil || uid != 0 && (uid < first || uid == nobody) || uid == p.UID {
			continue
		}
		home := mounts.Resolve(f[5])
		if slices.Contains(own, home) {
			continue
		}
		if mounts.Below(path, home) || mounts.Below(home, path) {
			return fmt.Errorf("%s is the home directory of %s", home, f[0])
		}
	}
	return nil
}
