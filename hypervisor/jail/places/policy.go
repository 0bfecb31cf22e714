package places

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/messages/lexical"
)

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
	path = ResolveMount(path)
	if path == "/" {
		return errors.New("the whole file system cannot be opened up: name what is to be written")
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/var/run"} {
		if lexical.Within(path, ResolveMount(dir)) {
			return fmt.Errorf("%s is the jail's own or the kernel's", dir)
		}
	}
	for _, f := range p.Folders {
		if lexical.Within(path, f) {
			return fmt.Errorf("it lies in the working folder %s, which can be written and undone", f)
		}
		if lexical.Within(f, path) {
			return fmt.Errorf("the working folder %s lies in it: what is written there could not be undone", f)
		}
	}
	if p.Store != "" && lexical.Within(ResolveMount(p.Store), path) {
		return fmt.Errorf("what is written to overlays is kept in it (%s)", p.Store)
	}
	for _, h := range p.Hidden {
		if lexical.Within(path, h) {
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
	own := []string{p.Home, ResolveMount(os.Getenv("HOME"))}
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
		home := ResolveMount(f[5])
		if slices.Contains(own, home) {
			continue
		}
		if lexical.Within(path, home) || lexical.Within(home, path) {
			return fmt.Errorf("%s is the home directory of %s", home, f[0])
		}
	}
	return nil
}
