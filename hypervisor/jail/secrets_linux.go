package jail

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/hypervisor"
)

// systemSecrets are sockets outside /run through which a program could act
// outside the jail. Other files of the system are protected by their owner.
var systemSecrets = []string{
	"/var/run/docker.sock", "/var/snap/lxd/common/lxd/unix.socket", "/var/snap/lxd/common/lxd-user/unix.socket",
	"/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket",
}

// logsBeside are undo logs that lie beside their folders: in the working folders, in all directories above them, and in the home directory. What else was
// done on this machine is in them.
func (p *planner) logsBeside() (out []string) {
	looked := map[string]bool{}
	for _, dir := range append(slices.Clone(p.shares), p.user.Home) {
		for ; !looked[dir] && filepath.IsAbs(dir); dir = filepath.Dir(dir) {
			looked[dir] = true
			for _, name := range names(dir) {
				if strings.HasPrefix(name, ".") && strings.HasSuffix(name, hypervisor.LogSuffix) {
					out = append(out, filepath.Join(dir, name))
				}
			}
		}
	}
	return out
}

// names are those in a directory, as far as they can be listed.
func names(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	list, _ := f.Readdirnames(-1)
	return list
}
