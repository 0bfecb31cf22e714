package npm

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// Install runs npm ci in here, a directory with a package-lock.json, unless
// node_modules is already what the lock says, and returns node_modules. Several
// processes may call it at once: one installs, the others wait.
func Install(here string) (string, error) {
	modules := filepath.Join(here, "node_modules")
	lock, err := os.ReadFile(filepath.Join(here, "package-lock.json"))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(lock)
	want, stamp := hex.EncodeToString(sum[:]), filepath.Join(modules, ".installed")
	done := func() bool {
		got, err := os.ReadFile(stamp)
		return err == nil && string(got) == want
	}
	if done() {
		return modules, nil
	}
	// The directory itself is the lock: npm ci removes node_modules.
	dir, err := os.Open(here)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil || done() {
		return modules, err
	}
	var out []byte
	for range 4 { // the registry, or the way to it, may hiccup
		// An ordinary user's tests read what root's have installed.
		cmd := exec.Command("sh", "-c", "umask 022; exec npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --fetch-retries=4")
		cmd.Dir = here
		if out, err = cmd.CombinedOutput(); err == nil {
			return modules, os.WriteFile(stamp, []byte(want), 0o644)
		}
	}
	return "", fmt.Errorf("npm ci: %w: %s", err, out)
}

// Modules is Install for a directory of this module, and ends the test if that is
// not possible.
func Modules(t testing.TB, here string) string {
	t.Helper()
	require.Program(t, "node", "nodejs") // npm's
	require.Program(t, "npm", "npm")
	dir, err := Install(here)
	if err != nil {
		require.Missing(t, "the npm packages of "+here, "npm ci --ignore-scripts there; it said: "+err.Error())
	}
	return dir
}

// Node returns the node among the modules: that of the packages, as distributions
// have older ones. It ends the test if there is none for this machine.
func Node(t testing.TB, modules string) string {
	t.Helper()
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	node := filepath.Join(modules, "node-linux-"+cmp.Or(arch, runtime.GOARCH), "bin", "node")
	if _, err := os.Stat(node); err != nil {
		require.Missing(t, node, "npm ci --ignore-scripts in "+filepath.Dir(modules))
	}
	return node
}
