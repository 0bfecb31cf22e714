package qemu

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/digitalocean/go-qemu/qmp"
)

// monitor is QEMU's control interface (QMP). The library's calls have no limit
// of their own; these have their context's.
type monitor struct {
	m *qmp.SocketMonitor

	mu sync.Mutex
	// silent is closed when nothing comes any more.
	silent chan struct{}
	// ended is why the guest stopped, as QEMU's SHUTDOWN event has it.
	ended string
}

// attach greets QEMU on a connection. It returns when that answers or fails.
func attach(m *qmp.SocketMonitor) (*monitor, error) {
	if err := m.Connect(); err != nil {
		return nil, fmt.Errorf("QEMU's monitor: %w", err)
	}
	events, err := m.Events(context.Background()) // it looks at no context
	if err != nil {
		return nil, fmt.Errorf("QEMU's monitor: %w", err)
	}
	q := &monitor{m: m, silent: make(chan struct{})}
	go func() {
		defer close(q.silent)
		for e := range events { // to the end, or its reader waits for us
			if e.Event != "SHUTDOWN" {
				continue
			}
			if reason, ok := e.Data["reason"].(string); ok {
				q.mu.Lock()
				q.ended = reason
				q.mu.Unlock()
			}
		}
	}()
	return q, nil
}

// reason is why the guest stopped, or empty if QEMU did not say.
func (q *monitor) reason() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

// run executes a command without arguments. When ctx ends first the answer is
// lost, and with it the monitor is of no more use.
func (q *monitor) run(ctx context.Context, command string) error {
	line, err := json.Marshal(qmp.Command{Execute: command})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		_, err := q.m.Run(line)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("qemu: %s: %w", command, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("qemu: %s: QEMU does not answer: %w", command, ctx.Err())
	}
}
