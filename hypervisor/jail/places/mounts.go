package places

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/messages/lexical"
)

// MountEntry is one line of /proc/PID/mountinfo.
type MountEntry struct {
	Dev   string // "major:minor"
	Root  string // what of the file system is mounted
	Point string // where
	// NoExec says that nothing there is executed.
	NoExec bool
	// Type and Options are the file system's, as the kernel names them: "9p" and "rw,aname=drvfs".
	Type, Options string
}

// ParseMounts reads mountinfo. Lines are in mount order: a later one covers
// an earlier one at the same place.
func ParseMounts(r io.Reader) ([]MountEntry, error) {
	var out []MountEntry
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) < 6 {
			return nil, fmt.Errorf("mountinfo: unexpected line %q", sc.Text())
		}
		m := MountEntry{Dev: f[2], Root: unescape(f[3]), Point: unescape(f[4]), NoExec: slices.Contains(strings.Split(f[5], ","), "noexec")}
		if i := slices.Index(f[6:], "-"); i >= 0 {
			if fs := f[6+i+1:]; len(fs) >= 3 { // type, source, options; a source without a name is a dash
				m.Type, m.Options = unescape(fs[0]), unescape(fs[2])
			}
		}
		out = append(out, m)
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

// MountDevice returns the device number of the file system that p is on, or "". p is as for [MountAliases].
func MountDevice(mounts []MountEntry, p string) string {
	if m := innermost(mounts, p); m != nil {
		return m.Dev
	}
	return ""
}

// MountNoExec reports whether nothing is executed where p is. p is as for [MountAliases].
func MountNoExec(mounts []MountEntry, p string) bool {
	m := innermost(mounts, p)
	return m != nil && m.NoExec
}

// MountServer says who serves the file system that p is on, if that is another system than this Linux: then edits that are made there
// are not announced here. That is [Windows] for the drives of WSL, else "another system", and empty if this kernel has the file system to
// itself. p is as for [MountAliases].
func MountServer(mounts []MountEntry, p string) string {
	m := innermost(mounts, p)
	if m == nil {
		return ""
	}
	switch m.Type {
	case "drvfs":
		return Windows // WSL 1
	case "9p", "virtiofs":
		if strings.Contains(m.Options, "drvfs") {
			return Windows
		}
	case "nfs", "nfs4", "cifs", "smb3", "vboxsf", "fakeowner", "fuse.sshfs", "fuse.vmhgfs-fuse", "fuse.grpcfuse":
	default:
		return ""
	}
	return "another system"
}

// Windows is the server of a drive of Windows in WSL.
const Windows = "Windows"

// ServedBy is [MountServer] for a path of this process, whose mountinfo is given. What cannot be read counts as not there.
func ServedBy(mountinfo, p string) string {
	mounts, _ := ParseMounts(strings.NewReader(mountinfo))
	return MountServer(mounts, p)
}

// innermost returns the mount that p is on, or nil.
func innermost(mounts []MountEntry, p string) (in *MountEntry) {
	for i := range mounts {
		m := &mounts[i]
		if lexical.Within(p, m.Point) && (in == nil || len(m.Point) >= len(in.Point)) {
			in = m
		}
	}
	return in
}

// MountAliases returns every other path at which the same file or directory, or a
// part of it, is mounted. p is clean, absolute and free of symlinks.
func MountAliases(mounts []MountEntry, p string) []string {
	home := innermost(mounts, p)
	if home == nil {
		return nil
	}
	inFS := path.Join(home.Root, strings.TrimPrefix(p, home.Point))
	var out []string
	for i := range mounts {
		m := &mounts[i]
		if m.Dev != home.Dev || m == home {
			continue
		}
		alias := ""
		switch {
		case lexical.Within(inFS, m.Root): // m shows it under its own point
			alias = path.Join(m.Point, strings.TrimPrefix(inFS, strings.TrimSuffix(m.Root, "/")))
		case lexical.Within(m.Root, inFS): // m shows a part of it
			alias = m.Point
		}
		if alias != "" && alias != p && !lexical.Within(alias, p) {
			out = append(out, alias)
		}
	}
	return out
}

// ResolveMount follows symlinks as far as the path exists.
func ResolveMount(p string) string {
	if r, err := filepath.EvalSymlinks(p); err == nil {
		return r
	}
	if dir := filepath.Dir(p); dir != p {
		return filepath.Join(ResolveMount(dir), filepath.Base(p))
	}
	return p
}
