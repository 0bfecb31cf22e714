package jail

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

// mountEntry is one line of /proc/PID/mountinfo.
type mountEntry struct {
	dev   string // "major:minor"
	root  string // what of the file system is mounted
	point string // where
}

// parseMountinfo reads mountinfo. Lines are in mount order: a later one covers
// an earlier one at the same place.
func parseMountinfo(r io.Reader) ([]mountEntry, error) {
	var out []mountEntry
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) < 6 {
			return nil, fmt.Errorf("mountinfo: unexpected line %q", sc.Text())
		}
		out = append(out, mountEntry{dev: f[2], root: unescape(f[3]), point: unescape(f[4])})
	}
	return out, sc.Err()
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// below reports whether p is dir or lies in it; both are clean and absolute.
func below(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// aliases returns every other path at which the same file or directory, or a
// part of it, is mounted. p is clean, absolute and free of symlinks.
func aliases(mounts []mountEntry, p string) []string {
	var home *mountEntry
	for i := range mounts {
		m := &mounts[i]
		if below(p, m.point) && (home == nil || len(m.point) >= len(home.point)) {
			home = m
		}
	}
	if home == nil {
		return nil
	}
	inFS := path.Join(home.root, strings.TrimPrefix(p, home.point))
	var out []string
	for i := range mounts {
		m := &mounts[i]
		if m.dev != home.dev || m == home {
			continue
		}
		alias := ""
		switch {
		case below(inFS, m.root): // m shows it under its own point
			alias = path.Join(m.point, strings.TrimPrefix(inFS, strings.TrimSuffix(m.root, "/")))
		case below(m.root, inFS): // m shows a part of it
			alias = m.point
		}
		if alias != "" && alias != p && !below(alias, p) {
			out = append(out, alias)
		}
	}
	return out
}
