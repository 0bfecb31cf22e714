package jail

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/codeagent/sandbox/guest/control"
)

// agentPlace is what the variable of an agent leads to: gpg wants a directory, others the socket.
func agentPlace(name string) string {
	if name == "gpg" {
		return control.GPGHome
	}
	return control.AgentSocket(name)
}

// addAgents makes the home directory of gpg. gpg prefers a socket below the user's runtime directory, with a name that depends on its version, unless somebody
// else may write there: so it is root's, and sockets lie in home directories.
func (p *planner) addAgents(uid string) {
	a, ok := p.cfg.Agents["gpg"]
	if !ok {
		return
	}
	p.add(mount{op: opDir, path: control.GPGHome, mode: 0o700, own: true})
	p.add(mount{op: opSymlink, path: filepath.Join(control.GPGHome, "S.gpg-agent"), source: control.AgentSocket("gpg")})
	for _, name := range slices.Sorted(maps.Keys(a.Files)) {
		p.add(mount{op: opFile, path: filepath.Join(control.GPGHome, name), content: a.Files[name], make: true})
	}
	p.add(mount{op: opDir, path: "/run/user/" + uid + "/gnupg", mode: 0o755})
}
