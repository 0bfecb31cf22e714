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

// Policy says what may be opened up. What it reads of the host, it reads once.
type Policy struct {
	Home    string   // the workload's
	UID     int      // the workload's
	Folders []string // working folders
	Hidden  []string
	Store   string // where overlays are kept

	host *host
}

// host is what a [Policy] has read of it.
type host struct {
	closed [][2]string // directories that are the jail's own or the kernel's, and where they lead
	store  string      // where Store leads
	homes  [][2]string // of other users, and whose they are
}

// Allows returns why a path must not be written inside, or nil.
func (p *Policy) Allows(path string) error {
	if p.host == nil {
		p.host = p.read()
	}
	if !filepath.IsAbs(path) {
		return errors.New("the path is not absolute")
	}
	path = ResolveMount(path)
	if path == "/" {
		return errors.New("the whole file system cannot be opened up: name what is to be written")
	}
	for _, dir := range p.host.closed {
		if lexical.Within(path, dir[1]) {
			return fmt.Errorf("%s is the jail's own or the kernel's", dir[0])
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
	if p.Store != "" && lexical.Within(p.host.store, path) {
		return fmt.Errorf("what is written to overlays is kept in it (%s)", p.Store)
	}
	for _, h := range p.Hidden {
		if lexical.Within(path, h) {
			return fmt.Errorf("it is hidden inside, as %s is: it may hold secrets", h)
		}
	}
	for _, home := range p.host.homes {
		if lexical.Within(path, home[0]) || lexical.Within(home[0], path) {
			return fmt.Errorf("%s is the home directory of %s", home[0], home[1])
		}
	}
	return nil
}

// read reads what the answers depend on beside the path.
func (p *Policy) read() *host {
	h := &host{homes: p.othersHomes()}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/var/run"} {
		h.closed = append(h.closed, [2]string{dir, ResolveMount(dir)})
	}
	if p.Store != "" {
		h.store = ResolveMount(p.Store)
	}
	return h
}

// othersHomes are the home directories of other users, each with its user's name.
func (p *Policy) othersHomes() (homes [][2]string) {
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
		if home := ResolveMount(f[5]); !slices.Contains(own, home) {
			homes = append(homes, [2]string{home, f[0]})
		}
	}
	return homes
}
