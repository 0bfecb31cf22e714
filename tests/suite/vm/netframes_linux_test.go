package vm

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/codeagent/sandbox/hypervisor/network"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// serveCable serves a network at a socket, with a web server that the guest may
// reach there. It returns QEMU's arguments for the card, the server's address as
// the guest has it, and a look at what came.
func serveCable(t *testing.T, socket string) (args []string, web string, served func(*testing.T)) {
	t.Helper()
	port := webServer(t)
	log := slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelError}))
	e, err := policy.New(policy.Options{Network: policy.Network{Mode: policy.Allowlist, Allow: []string{"127.0.0.1:" + port}}, Log: log})
	check(t, err)
	n, err := network.New(network.Options{Policy: e, Log: log})
	check(t, err)
	l, err := net.Listen("unix", socket)
	check(t, err)
	ended := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = n.Serve(context.Background(), c)
		}
		ended <- err
	}()
	t.Cleanup(func() { // QEMU is gone before
		l.Close()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the cable's end: %v", err)
			}
		case <-time.After(patience):
			t.Error("the network serves on without a guest")
		}
		e.Close()
	})
	args = []string{"-netdev", "stream,id=net0,addr.type=unix,addr.path=" + socket, "-device", "virtio-net-pci,netdev=net0,romfile="}
	return args, "10.0.2.2:" + port, func(t *testing.T) {
		t.Helper()
		st := n.Stats()
		t.Logf("%+v", st)
		if st.Foreign == 0 {
			t.Errorf("no frame was refused: %+v", st)
		}
		select {
		case err := <-ended:
			t.Errorf("the network has ended: %v", err)
		default:
		}
	}
}
