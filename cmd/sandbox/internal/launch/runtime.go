package launch

import (
	"path/filepath"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/guestbin"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/hypervisor/none"
)

// Runtime returns the runtime for a value of --isolation and the working
// folders. auto is the jail: "none" must be asked for.
func (l *Launcher) Runtime(name string, dirs ...api.Directory) (hypervisor.Runtime, error) {
	switch name {
	case "none":
		dir, err := l.RuntimeDir()
		if err != nil {
			return nil, err
		}
		l.Remark("sandbox: --isolation none: this command is NOT isolated; only its changes to the working folder can be undone")
		return none.New(none.Options{Dir: filepath.Join(dir, "mounts"), Umask: l.Umask, Logger: l.Log}), nil
	case "vm":
		return l.Machine(dirs...)
	default:
		o := jail.Options{Umask: l.Umask, Logger: l.Log}
		if guest := guestbin.Embedded(); len(guest) > 0 {
			o.GuestBinary = func() ([]byte, error) { return guest, nil }
		}
		return jail.New(o), nil
	}
}
