package walls

import (
	"encoding/json"
	"math"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// closeRest closes what is no standard stream, before anything is open.
func closeRest() { _ = unix.CloseRange(3, math.MaxUint32, 0) } // Linux 5.9, and Landlock is younger

// startScout starts a scout, which ends when this process does.
func startScout() (*asker, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Dir, cmd.Env = []string{scoutProgram}, "/", []string{"GOMAXPROCS=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C at the terminal is not for it
	ask, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answer, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _, _ = cmd.Process.Wait() }()
	return &asker{asks: json.NewEncoder(ask), answers: json.NewDecoder(answer)}, nil
}
