package qemu

import "github.com/codeagent/sandbox/hypervisor/remote"

// child is QEMU's process.
type child struct{ remote.Child }

func (c *child) pid() int { return c.PID }

// reap waits for its end.
func (c *child) reap() ending {
	status := c.Reap()
	return ending{clean: status.Exited() && status.ExitStatus() == 0, text: remote.HowEnded(status, "")}
}
