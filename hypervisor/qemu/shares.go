package qemu

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages/lexical"
)

// ours are directories of the guest's own system, which a folder, mounted at its
// own path, would cover.
var ours = []string{"/bin", "/sbin", "/lib", "/usr/bin", "/usr/sbin", "/dev", "/proc", "/sys", "/etc", "/run", "/tmp", "/mnt/working"}

// checkShares returns an error for folders that cannot be shown at their path.
func checkShares(shares []hypervisor.Share) error {
	for i, s := range shares {
		p := s.GuestPath
		if !filepath.IsAbs(s.HostPath) || !path.IsAbs(p) || path.Clean(p) != p {
			return fmt.Errorf("qemu: share %s at %s: paths are absolute", s.HostPath, p)
		}
		for _, o := range ours {
			if lexical.Within(o, p) || lexical.Within(p, "/proc") || lexical.Within(p, "/sys") {
				return fmt.Errorf("qemu: %s cannot be a working folder of a virtual machine: the guest has its own %s; use --isolation jail, or another folder", p, o)
			}
		}
		for _, other := range shares[:i] {
			if lexical.Within(p, other.GuestPath) || lexical.Within(other.GuestPath, p) {
				return fmt.Errorf("qemu: of the working folders %s and %s one lies in the other: name only one of them", other.GuestPath, p)
			}
		}
	}
	return nil
}

// refused are, for each share, the paths in it that its bridge must refuse: a
// home directory's secrets, undo logs, and what the configuration hides. Symlinks are
// followed first, as far as they lead.
func refused(cfg hypervisor.Config, homes ...string) [][]string {
	var hide, folders []string
	for _, s := range cfg.Shares {
		folders = append(folders, s.HostPath)
	}
	for _, s := range slices.Concat(hypervisor.Secrets(os.Getenv, homes...), hypervisor.Logs(os.Getenv, folders, homes...)) {
		hide = append(hide, s.Path)
	}
	hide = append(hide, cfg.Hide...)
	var show []string
	for _, s := range cfg.Show {
		show = append(show, resolve(s))
	}
	out := make([][]string, len(cfg.Shares))
	for _, h := range hide {
		if h = resolve(h); slices.Contains(show, h) {
			continue
		}
		for i, s := range cfg.Shares {
			if dir := resolve(s.HostPath); lexical.Below(h, dir) {
				out[i] = append(out[i], strings.TrimPrefix(strings.TrimPrefix(h, dir), "/"))
			}
		}
	}
	for i := range out {
		slices.Sort(out[i])
		out[i] = slices.Compact(out[i])
	}
	return out
}

// resolve follows symlinks as far as the path exists.
func resolve(p string) string {
	if r, err := filepath.EvalSymlinks(p); err == nil {
		return r
	}
	if dir := filepath.Dir(p); dir != p {
		return filepath.Join(resolve(dir), filepath.Base(p))
	}
	return p
}

// homes are the directories in which somebody's secrets are.
func homes() []string {
	list := []string{os.Getenv("HOME")}
	if h, err := os.UserHomeDir(); err == nil {
		list = append(list, h)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
