//go:build amd64 || arm64

package inner

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/paths"
	"github.com/codeagent/sandbox/guest/shim"
)

// notifyDir holds the rollback notice for programs inside.
const notifyDir = "/run/sandbox"

// Invoked reports whether a program was started as one of the stages.
func Invoked(args []string) bool {
	return filepath.Base(args[0]) == control.GuestProgram && (len(args) == 2 || isLimited(args) || isLeader(args))
}

// isLimited tells whether a program is started as [control.StageLimits].
func isLimited(args []string) bool { return len(args) >= 5 && args[1] == control.StageLimits }

// isLeader tells whether a program is started as [control.StageLead].
func isLeader(args []string) bool { return len(args) == 3 && args[1] == control.StageLead }

// Main runs the stage that args (os.Args) name and returns the exit status. It
// belongs at the very start of main: it takes over the process.
func Main(args []string) int {
	var err error
	switch {
	case isMachineInit(args):
		runtime.LockOSThread()
		err = machine()
	case len(args) == 2 && args[1] == control.StageShim:
		err = serve()
	case len(args) == 2 && args[1] == control.StagePaths:
		return paths.Main()
	case isLimited(args):
		return shim.Limited(args[2:])
	case isLeader(args):
		return shim.Lead(args[2:])
	default:
		err = fmt.Errorf("this program is started by sandbox, inside a guest")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s: %v\n", control.GuestProgram, strings.Join(args[1:], " "), err)
		return 1
	}
	return 0
}

// serve is the shim stage.
func serve() error {
	// Not earlier: an exec takes it back.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	var cfg control.ShimConfig
	if err := json.Unmarshal([]byte(os.Getenv(control.ShimVariable)), &cfg); err != nil {
		return err
	}
	os.Clearenv()
	unix.Umask(cfg.Umask)
	unix.CloseOnExec(control.FDControl)
	if err := unix.SetNonblock(control.FDControl, true); err != nil {
		return err
	}
	conn, err := control.NewFDConn(os.NewFile(control.FDControl, "control"))
	if err != nil {
		return err
	}
	env := make([]string, len(cfg.Env))
	for i, e := range cfg.Env {
		env[i] = string(e)
	}
	o := shim.Options{Init: true, Env: env, NotifyDir: notifyDir, Processes: cfg.Processes}
	if cfg.NotifyDir != "" {
		o.NotifyDir = cfg.NotifyDir
	}
	if !cfg.Confined {
		o.InsideSocket, o.Agents = control.InsideSocket, cfg.Agents
	}
	if cfg.Confined {
		// And what the supervisor has inherited: no command gets it. A jail's first process has closed it before.
		if err := unix.CloseRange(control.FDDomain, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
			return os.NewSyscallError("close_range", err)
		}
		if o.Confined, err = shim.Confine(control.FDDomain); err != nil {
			return err
		}
	}
	return shim.Serve(conn, o)
}
