//go:build amd64 || arm64

package inner

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/shim"
)

// Stages after [control.StageBuild], as argv[1].
const (
	stageInit = "init"
	stageShim = "shim"
)

// fdChannel is the control channel in the stages after build.
const fdChannel = 3

// envInit carries [initConfig] to the stages after build.
const envInit = "SANDBOX_INIT"

// notifyDir holds the rollback notice for programs inside.
const notifyDir = "/run/sandbox"

// Invoked reports whether a program was started as one of the stages.
func Invoked(args []string) bool {
	return len(args) == 2 && filepath.Base(args[0]) == control.GuestProgram
}

// Main runs the stage that args (os.Args) name and returns the exit status. It
// belongs at the very start of main: it takes over the process.
func Main(args []string) int {
	// Parent-death signals and the stages' rights belong to a thread.
	runtime.LockOSThread()
	var err error
	switch {
	case len(args) == 2 && args[1] == control.StageBuild:
		err = build()
	case len(args) == 2 && args[1] == stageInit:
		err = initialise()
	case len(args) == 2 && args[1] == stageShim:
		err = serve()
	default:
		err = fmt.Errorf("this program is started by sandbox, inside a guest")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s: %v\n", control.GuestProgram, strings.Join(args[1:], " "), err)
		return 1
	}
	return 0
}

// channel makes a descriptor we were started with our own.
func channel(fd int) (control.FDConn, error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	return control.NewFDConn(os.NewFile(uintptr(fd), "control"))
}

// serve is the shim stage.
func serve() error {
	// Not earlier: the stages before need to write their own id maps.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	var cfg initConfig
	if err := json.Unmarshal([]byte(os.Getenv(envInit)), &cfg); err != nil {
		return err
	}
	os.Clearenv()
	conn, err := channel(fdChannel)
	if err != nil {
		return err
	}
	env := make([]string, len(cfg.Env))
	for i, e := range cfg.Env {
		env[i] = string(e)
	}
	return shim.Serve(conn, shim.Options{Init: true, Env: env, NotifyDir: notifyDir, Warnings: cfg.Warnings})
}
