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
	"strconv"
	"time"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

// downloadBytes is how much a client reads in one connection; connections is how
// often it connects.
const (
	downloadBytes = 512 << 20
	connections   = 100
)

// gateway is the host's loopback as a jail sees it.
const gateway = "10.0.2.2"

// networkEnd is the server ("serve"), or a client ("fetch ADDRESS"), which prints the
// nanoseconds that the download took, the processor time of it, and the median time
// of a connection.
func networkEnd(args []string, out io.Writer) error {
	if args[0] == "serve" {
		return serveBytes(out)
	}
	var each []time.Duration
	for range connections {
		start := time.Now()
		c, err := net.Dial("tcp", args[1])
		if err != nil {
			return err
		}
		each = append(each, time.Since(start))
		c.Close()
	}
	c, err := net.Dial("tcp", args[1])
	if err != nil {
		return err
	}
	defer c.Close()
	buf := make([]byte, 1<<20)
	before, start := cpuOf(-1), time.Now()
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	for left := downloadBytes; left > 0; {
		n, err := c.Read(buf)
		if err != nil {
			return fmt.Errorf("%d bytes before the end: %w", left, err)
		}
		left -= n
	}
	_, err = fmt.Fprintln(out, int64(time.Since(start)), int64(cpuOf(-1)-before), int64(report.Median(each)))
	return err
}

// serveBytes sends zeros to each client that says a byte.
func serveBytes(out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, l.Addr().(*net.TCPAddr).Port); err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 1<<20)
			if _, err := c.Read(buf[:1]); err != nil {
				return
			}
			for err == nil {
				_, err = c.Write(buf)
			}
		}()
	}
}

// transfer is what a client has printed; processors is the processor time of the client,
// of the server, and of the network between them.
type transfer struct{ elapsed, processors, connect time.Duration }

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
			before := cpuOf(server.Process.Pid) + cpuOf(-1)
			out, err := s.run(networkArg, "fetch", net.JoinHostPort(s.host, strconv.Itoa(port)))
			if err != nil {
				return fmt.Errorf("%s: %w: %s", s.host, err, lastLine(out))
			}
			var t transfer
			if _, err := fmt.Sscan(string(out), &t.elapsed, &t.processors, &t.connect); err != nil {
				return fmt.Errorf("%q: %w", out, err)
			}
			t.processors += cpuOf(server.Process.Pid) + cpuOf(-1) - before
			*s.list = append(*s.list, t)
		}
	}
	compareTransfers(r, ours, theirs)
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
	r.Ratio("network", "download through the jail's network / over loopback", column(ours, elapsed), column(theirs, elapsed), 2)
	r.Ratio("network", "the same, processor time of all parties", column(ours, processors), column(theirs, processors), 2)
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
	rules, err := policy.ParseRules([]string{fmt.Sprintf("127.0.0.1:%d", port)})
	if err != nil {
		return nil, nil, err
	}
	engine, err := policy.New(policy.Options{Mode: policy.Allowlist, Rules: rules})
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
