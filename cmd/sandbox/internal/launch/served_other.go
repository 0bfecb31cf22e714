//go:build !linux

package launch

import "github.com/codeagent/sandbox/actors/api"

// remarkServed has nothing to say: WSL is a Linux.
func (l *Launcher) remarkServed([]api.Directory) {}
