package main

import (
	"path/filepath"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/guestbin"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/hypervisor/none"
)

// isolation returns the runtime for a value of --isolation and the working
// folders. auto is the jail: "none" must be asked for.
func (a *app) isolation(name string, dirs ...api.Directory) (hypervisor.Runtime, error) {
	switch name {
	case "none":
		dir, err := runtimeDir()
		if err != nil {
			return nil, err
		}
		a.remark("sandbox: --isolation none: this command is NOT isolated; only its changes to the working folder can be undone")
		return none.New(none.Options{Dir: filepath.Join(dir, "mounts"), Umask: a.umask, Logger: a.log}), nil
	case "vm":
		return a.machine(dirs...)
	default:
		o := jail.Options{Umask: a.umask, Logger: a.log}
		if guest := guestbin.Embedded(); len(guest) > 0 {
			o.GuestBinary = func() ([]byte, error) { return guest, nil }
		}
		return jail.New(o), nil
	}
}
