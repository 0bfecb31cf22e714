package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/tests/bench/internal/ends"
	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

// gateway is the host's loopback as a jail sees it.
const gateway = "10.0.2.2"

// networkEnd makes this program one end of a transfer.
func networkEnd(args []string, out io.Writer) error {
	return ends.Run(args, out, func() time.Duration { return cpuOf(-1) })
}

// transfer is what a client has printed; processors is the processor time of the client,
// of the server, and of the network between them.
type transfer struct{ elapsed, processors, connect, upload time.Duration }

// benchNetwork compares downloads and connections through a jail's network with the
// same over loopback.
func benchNetwork(ctx context.Context, _ *lab, r *report.Report, rounds int) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server := exec.CommandContext(ctx, self, networkArg, "serve")
	said, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(line[:len(line)-1])
	if err != nil {
		return err
	}
	g, end, err := networkedJail(ctx, self, port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()

	inside := func(args ...string) ([]byte, error) {
		return execIn(ctx, g, nil, append([]string{"/tmp/bench"}, args...)...)
	}
	outside := func(args ...string) ([]byte, error) { return exec.CommandContext(ctx, self, args...).Output() }
	var ours, theirs []transfer
	for range 3 * rounds {
		for _, s := range []struct {
			list *[]transfer
			host string
			run  func(args ...string) ([]byte, error)
		}{{&ours, gateway, inside}, {&theirs, "127.0.0.1", outside}} {
			t, err := transferBy(s.run, server.Process.Pid, net.JoinHostPort(s.host, strconv.Itoa(port)))
			if err != nil {
				return fmt.Errorf("%s: %w", s.host, err)
			}
			*s.list = append(*s.list, t)
		}
	}
	compareTransfers(r, ours, theirs)
	return manyTransfers(r, func() ([]byte, error) {
		return inside(networkArg, "many", net.JoinHostPort(gateway, strconv.Itoa(port)))
	})
}

// transferBy runs a client in both directions, one after the other.
func transferBy(run func(args ...string) ([]byte, error), server int, address string) (t transfer, err error) {
	before := cpuOf(server) + cpuOf(-1)
	out, err := run(networkArg, "fetch", address)
	if err == nil {
		_, err = fmt.Sscan(string(out), &t.elapsed, &t.processors, &t.connect)
	}
	if err != nil {
		return t, fmt.Errorf("%w: %s", err, lastLine(out))
	}
	t.processors += cpuOf(server) + cpuOf(-1) - before
	out, err = run(networkArg, "send", address)
	if err == nil {
		_, err = fmt.Sscan(string(out), &t.upload)
	}
	if err != nil {
		return t, fmt.Errorf("%w: %s", err, lastLine(out))
	}
	return t, nil
}

// manyTransfers adds what this process, which is the supervisor here, needs at its most for
// each of many connections that download at a time.
func manyTransfers(r *report.Report, run func() ([]byte, error)) error {
	runtime.GC()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak begins anew
		return err
	}
	before := statusKiB(os.Getpid(), "VmHWM")
	if out, err := run(); err != nil {
		return fmt.Errorf("%d connections: %w: %s", ends.Many, err, lastLine(out))
	}
	grown := statusKiB(os.Getpid(), "VmHWM") - before
	r.Value("network", fmt.Sprintf("supervisor's memory for each of %d downloads at a time", ends.Many), float64(grown)/ends.Many, "KiB", 1024)
	return nil
}

// compareTransfers adds the rows. Half of loopback's throughput is twice its time.
func compareTransfers(r *report.Report, ours, theirs []transfer) {
	column := func(list []transfer, f func(transfer) time.Duration) []time.Duration {
		var c []time.Duration
		for _, t := range list {
			c = append(c, f(t))
		}
		return c
	}
	elapsed := func(t transfer) time.Duration { return t.elapsed }
	processors := func(t transfer) time.Duration { return t.processors }
	connect := func(t transfer) time.Duration { return t.connect }
	up := func(t transfer) time.Duration { return t.upload }
	r.Ratio("network", "download through the jail's network / over loopback", column(ours, elapsed), column(theirs, elapsed), 2)
	r.Ratio("network", "the same, processor time of all parties", column(ours, processors), column(theirs, processors), 2)
	r.Ratio("network", "upload through the jail's network / over loopback", column(ours, up), column(theirs, up), 2)
	r.Value("network", "what the jail's network adds to a connection", report.MS(report.Median(column(ours, connect))-report.Median(column(theirs, connect))), "ms", 1)
}

// networkedJail starts a jail that may reach that port of the host, with this program
// in its /tmp.
func networkedJail(ctx context.Context, self string, port int) (hypervisor.Guest, func() error, error) {
	program, err := os.Open(self)
	if err != nil {
		return nil, nil, err
	}
	defer program.Close()
	engine, err := policy.New(policy.Options{Network: policy.Network{Mode: policy.Allowlist, Allow: []string{fmt.Sprintf("127.0.0.1:%d", port)}}})
	if err != nil {
		return nil, nil, err
	}
	j := newJail()
	g, err := j.Start(ctx, hypervisor.Config{SessionID: "bench", UID: -1, GID: -1, Network: engine})
	if err != nil {
		engine.Close()
		return nil, nil, err
	}
	end := func() error { err := g.Stop(context.WithoutCancel(ctx)); engine.Close(); return err }
	if out, err := execIn(ctx, g, program, "sh", "-ec", "cat >/tmp/bench; chmod 755 /tmp/bench"); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%w: %s", err, lastLine(out)), end())
	}
	return g, end, nil
}

// execIn runs a program in the guest and returns what it printed.
func execIn(ctx context.Context, g hypervisor.Guest, stdin *os.File, argv ...string) ([]byte, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p, err := g.Exec(ctx, hypervisor.Command{ID: time.Now().UnixNano(), Argv: argv, Dir: "/", Stdin: stdin, Stdout: w, Stderr: w})
	w.Close()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if _, err := out.ReadFrom(r); err != nil {
		return nil, err
	}
	st, err := p.Wait(ctx)
	if err == nil && st.Code != 0 {
		err = fmt.Errorf("exit status %d", st.Code)
	}
	return out.Bytes(), err
}
