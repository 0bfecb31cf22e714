//go:build !linux

package qemu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// child is QEMU's process.
type child struct {
	mu   sync.Mutex
	cmd  *exec.Cmd
	tied tie
	gone bool
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// Kill ends it. Nothing happens once it has ended.
func (c *child) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd != nil && !c.gone {
		_ = c.cmd.Process.Kill()
	}
}

// reap waits for its end.
func (c *child) reap() ending {
	err := c.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	c.tied.loosen()
	if err != nil {
		return ending{text: err.Error()}
	}
	return ending{clean: true, text: "exit status 0"}
}

// spawn starts QEMU, which ends with us.
func (g *guest) spawn(program string, args []string, inherit []*os.File) error {
	if len(inherit) > 0 {
		return errors.ErrUnsupported
	}
	cmd := exec.Command(program, args...)
	cmd.Stderr = &g.stderr
	asEmulator(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", program, err)
	}
	tied, err := tieToUs(cmd.Process, g.disks)
	if err != nil {
		return errors.Join(fmt.Errorf("QEMU would outlive this program: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	g.child.mu.Lock()
	g.child.cmd, g.child.tied = cmd, tied
	g.child.mu.Unlock()
	go g.await()
	return nil
}
