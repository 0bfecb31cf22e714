package hypervisor

import (
	"path"
	"runtime"
	"strings"
)

// GuestPath returns where a guest has a directory of the host, of which the path is absolute and clean: at the same path. The guest is
// Linux, so what Windows calls C:\work is at /mnt/c/work, where WSL has it, too, and \\server\share\work at /mnt/unc/server/share/work.
func GuestPath(host string) string { return guestPath(runtime.GOOS, host) }

func guestPath(system, host string) string {
	if system != "windows" {
		return host
	}
	p := strings.ReplaceAll(host, `\`, "/")
	if rest, ok := strings.CutPrefix(p, "//?/UNC/"); ok {
		p = "//" + rest
	}
	p = strings.TrimPrefix(p, "//?/")
	if rest, ok := strings.CutPrefix(p, "//"); ok {
		return path.Join("/mnt/unc", rest)
	}
	if len(p) >= 2 && p[1] == ':' {
		return path.Join("/mnt", strings.ToLower(p[:1]), p[2:])
	}
	return p
}
