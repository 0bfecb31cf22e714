package launch

import (
	"encoding/json"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor/inherit"
)

// closeRest closes what this process was started with and is no standard stream. Go's runtime has descriptors of its own by now, without which it ends the program.
func closeRest() {
	for _, fd := range inherit.PassedDescriptors() {
		_ = unix.Close(fd)
	}
}

// startScout starts a scout, which ends when this process does, and which may be asked to remove some files.
func startScout(removes []string) (*asker, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Dir, cmd.Env = append([]string{scoutProgram}, removes...), "/", []string{"GOMAXPROCS=1"}
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
