package shim_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/shim"
)

// transports are the two forms in which data travels.
var transports = map[string]func(*testing.T) (host, guest control.Conn){
	"messages": func(*testing.T) (control.Conn, control.Conn) { return net.Pipe() },
	"descriptors": func(t *testing.T) (control.Conn, control.Conn) {
		a, b, err := control.SocketPair()
		if err != nil {
			t.Fatal(err)
		}
		ca, err := control.NewFDConn(a)
		if err != nil {
			t.Fatal(err)
		}
		cb, err := control.NewFDConn(b)
		if err != nil {
			t.Fatal(err)
		}
		return ca, cb
	},
}

// each runs a test over both transports with a shim in this process.
func each(t *testing.T, f func(t *testing.T, h *control.Host)) {
	for name, connect := range transports {
		t.Run(name, func(t *testing.T) {
			a, b := connect(t)
			served := make(chan error, 1)
			go func() {
				served <- shim.Serve(b, shim.Options{Env: []string{"PATH=" + os.Getenv("PATH"), "GREETING=hello"}, NotifyDir: t.TempDir()})
			}()
			h := control.NewHost(a, func(err error) { t.Logf("problem: %v", err) })
			if _, err := h.Hello(t.Context()); err != nil {
				t.Fatal(err)
			}
			f(t, h)
			if err := h.Shutdown(); err != nil {
				t.Errorf("shutdown: %v", err)
			}
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
			<-h.Done()
		})
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// collect returns a file to write to, and what was written once it is closed.
func collect(t *testing.T) (*os.File, func() string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ch := make(chan string, 1)
	go func() {
		data, _ := io.ReadAll(r)
		r.Close()
		ch <- string(data)
	}()
	return w, sync.OnceValue(func() string { w.Close(); return <-ch })
}

func run(t *testing.T, h *control.Host, e control.Exec) (control.Status, string, string) {
	t.Helper()
	out, outText := collect(t)
	errOut, errText := collect(t)
	e.Stdout, e.Stderr = out, errOut
	p, err := h.Start(within(t), e)
	if err != nil {
		t.Fatalf("%v: %v", e.Argv, err)
	}
	st, err := p.Wait(within(t))
	if err != nil {
		t.Fatalf("%v: %v", e.Argv, err)
	}
	return st, outText(), errText()
}

// The reference's SH-01 to SH-08, of which only SH-06 (cancel) is described: TestExec,
// TestBinaryThroughput, TestStartErrors, TestEnvironment, TestBackground, TestCancel,
// TestConcurrent, TestRollbackNotice.

func TestExec(t *testing.T) {
	each(t, func(t *testing.T, h *control.Host) {
		st, out, errOut := run(t, h, control.Exec{ID: 1, Argv: []string{"sh", "-c", "echo $GREETING; echo oops >&2; exit 7"}, Dir: "/"})
		if st.Code != 7 || out != "hello\n" || errOut != "oops\n" {
			t.Errorf("%+v %q %q", st, out, errOut)
		}
		st, out, _ = run(t, h, control.Exec{ID: 2, Command: "echo $A; pwd; cat", Env: []string{"A=b\xff"}, Dir: "/proc"})
		if st.Code != 0 || out != "b\xff\n/proc\n" {
			t.Errorf("%+v %q", st, out)
		}
		if st, _, _ = run(t, h, control.Exec{ID: 3, Argv: []string{"sh", "-c", "kill -KILL $$"}}); st.Code != 137 || st.Signal != 9 {
			t.Errorf("killed: %+v", st)
		}
	})
}

// TestEnvironment: a command has the environment that came with it, though one
// that is the same as before is not sent again.
func TestEnvironment(t *testing.T) {
	each(t, func(t *testing.T, h *control.Host) {
		path := "PATH=" + os.Getenv("PATH")
		one, two := []string{path, "GREETING=one"}, []string{path, "GREETING=two"}
		for i, step := range []struct {
			env  []string
			want string
		}{{one, "one"}, {one, "one"}, {nil, "hello"}, {one, "one"}, {two, "two"}, {two, "two"}, {slices.Clone(two), "two"}, {one, "one"}, {nil, "hello"}} {
			_, out, _ := run(t, h, control.Exec{ID: int64(i + 1), Command: "echo $GREETING", Env: step.env})
			if out != step.want+"\n" {
				t.Errorf("command %d: %q, want %s", i, out, step.want)
			}
		}
		two[1] = "GREETING=changed by the caller"
		if _, out, _ := run(t, h, control.Exec{ID: 100, Command: "echo $GREETING", Env: two}); out != "changed by the caller\n" {
			t.Errorf("%q", out)
		}
		var wg sync.WaitGroup
		for i := range 40 { // at once
			wg.Go(func() {
				v := strconv.Itoa(i % 3)
				if _, out, _ := run(t, h, control.Exec{ID: int64(200 + i), Command: "echo $GREETING", Env: []string{path, "GREETING=" + v}}); out != v+"\n" {
					t.Errorf("%d: %q", i, out)
				}
			})
		}
		wg.Wait()
	})
}

func TestBinaryThroughput(t *testing.T) {
	each(t, func(t *testing.T, h *control.Host) {
		const size = 4 << 20
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = io.CopyN(w, zeroes{}, size) // the reader checks the count
			w.Close()
		}()
		st, out, _ := run(t, h, control.Exec{ID: 1, Argv: []string{"cat"}, Stdin: r})
		r.Close()
		if st.Code != 0 || len(out) != size || strings.Count(out, "\xff") != len(out) {
			t.Errorf("%+v, %d bytes came back", st, len(out))
		}
	})
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0xff
	}
	return len(p), nil
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("echo ran $1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, h *control.Host) {
		for i, c := range []struct {
			argv []string
			dir  string
			code int
		}{
			{[]string{"no-such-program"}, "/", 127},
			{[]string{"/no/such/program"}, "/", 127},
			{[]string{plain}, "/", 126},
			{[]string{"./plain"}, dir, 126},
			{[]string{dir}, "/", 126},
			{[]string{"true"}, "/no/such/dir", 126},
			{[]string{"true"}, plain, 126},
			{[]string{""}, "/", 127},
			{[]string{"true", "a\x00b"}, "/", 126},
		} {
			_, err := h.Start(within(t), control.Exec{ID: int64(i + 1), Argv: c.argv, Dir: c.dir})
			var se *control.StartError
			if !errors.As(err, &se) || se.ExitCode != c.code {
				t.Errorf("%q in %s: %v, want %d", c.argv, c.dir, err, c.code)
			}
		}
		// As in a shell, a script needs no interpreter line.
		if _, out, _ := run(t, h, control.Exec{ID: 100, Argv: []string{script, "well"}}); out != "ran well\n" {
			t.Errorf("script: %q", out)
		}
	})
}

// TestCancel (SH-06): a shell that ignores TERM, and its children in process groups of
// their own, are gone when Wait returns; a process in another session goes on.
func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, h *control.Host) {
		dir := t.TempDir()
		script := `trap '' TERM
set -m
sh -c "trap '' TERM; echo \$\$ >>pids; echo >ready1; while :; do sleep 0.05; done" &
setsid sh -c 'echo $$ >other; echo >ready2; exec sleep 60' &
echo $$ >>pids
while :; do sleep 0.05; done`
		for _, f := range []string{"ready1", "ready2"} {
			if err := unix.Mkfifo(filepath.Join(dir, f), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p, err := h.Start(within(t), control.Exec{ID: 1, Argv: []string{"sh", "-c", script}, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []string{"ready1", "ready2"} { // opening a FIFO waits for the writer
			if _, err := os.ReadFile(filepath.Join(dir, f)); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		if err := p.Cancel(50 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		st, err := p.Wait(within(t))
		if err != nil || st.Signal != int(unix.SIGKILL) {
			t.Errorf("%+v, %v", st, err)
		}
		if d := time.Since(begin); d < 50*time.Millisecond {
			t.Errorf("killed after %v, before the grace was over", d)
		}
		for _, pid := range pids(t, filepath.Join(dir, "pids")) {
			if alive(pid) {
				t.Errorf("process %d of the session lives", pid)
			}
		}
		other := pids(t, filepath.Join(dir, "other"))
		if len(other) != 1 || !alive(other[0]) {
			t.Errorf("the process in its own session %v is gone", other)
		}
		for _, pid := range other {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
}

func pids(t *testing.T, file string) (out []int) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for f := range strings.FieldsSeq(string(data)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// alive reports whether a process exists that is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// TestBackground: what a command leaves running neither delays its end nor dies
// of its closed streams.
func TestBackground(t *testing.T) {
	each(t, func(t *testing.T, h *control.Host) {
		dir := t.TempDir()
		fifo := filepath.Join(dir, "fifo")
		if err := unix.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		st, out, _ := run2(t, h, control.Exec{ID: 1, Argv: []string{"sh", "-c", "(cat fifo; echo late; echo later >done; echo >fifo) & echo early"}, Dir: dir})
		if st.Code != 0 || !strings.HasPrefix(out, "early\n") {
			t.Errorf("%+v %q", st, out)
		}
		if err := os.WriteFile(fifo, nil, 0); err != nil { // lets the cat go
			t.Fatal(err)
		}
		if _, err := os.ReadFile(fifo); err != nil { // and waits for the last echo
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "done")); err != nil {
			t.Errorf("the background process did not survive its output: %v", err)
		}
	})
}

// run2 is run for commands that leave something with their stdout: it reads what
// there is when the command has ended.
func run2(t *testing.T, h *control.Host, e control.Exec) (control.Status, string, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	e.Stdout = w
	p, err := h.Start(within(t), e)
	if err != nil {
		t.Fatal(err)
	}
	st, err := p.Wait(within(t))
	buf := make([]byte, 1024)
	n, _ := r.Read(buf)
	return st, string(buf[:n]), err
}

func TestTerminal(t *testing.T) {
	each(t, func(t *testing.T, h *control.Host) {
		p, err := h.Start(within(t), control.Exec{ID: 1, Argv: []string{"sh", "-c", "stty size; trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.01; done"}, TTY: &control.TTY{Rows: 33, Cols: 77}})
		if err != nil {
			t.Fatal(err)
		}
		term := p.Terminal()
		if term == nil {
			t.Fatal("no terminal")
		}
		defer term.Close()
		expect(t, term, "33 77")
		expect(t, term, "ready")
		if err := p.Resize(44, 88); err != nil {
			t.Fatal(err)
		}
		expect(t, term, "44 88")
		if st, err := p.Wait(within(t)); err != nil || st.Code != 5 {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

// TestInterrupt: ^C on the terminal reaches the foreground job alone.
func TestInterrupt(t *testing.T) {
	each(t, func(t *testing.T, h *control.Host) {
		p, err := h.Start(within(t), control.Exec{ID: 1, Argv: []string{"sh", "-i"}, TTY: &control.TTY{Rows: 24, Cols: 80}, Env: []string{"PS1=prompt>", "PATH=" + os.Getenv("PATH")}})
		if err != nil {
			t.Fatal(err)
		}
		term := p.Terminal()
		defer term.Close()
		expect(t, term, "prompt>")
		say(t, term, "sh -c 'echo run''ning; exec sleep 60'\n")
		expect(t, term, "running") // so it is in the foreground
		say(t, term, "\x03")
		expect(t, term, "prompt>")
		say(t, term, "echo stat''us $?; exit 3\n")
		expect(t, term, "status 130")
		if st, err := p.Wait(within(t)); err != nil || st.Code != 3 {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

func say(t *testing.T, term *os.File, s string) {
	t.Helper()
	if _, err := term.WriteString(s); err != nil {
		t.Fatal(err)
	}
}

// expect reads the terminal until the text has come.
func expect(t *testing.T, term *os.File, want string) {
	t.Helper()
	_ = term.SetReadDeadline(time.Now().Add(60 * time.Second)) // a terminal that cannot has none
	var got strings.Builder
	buf := make([]byte, 1)
	for !strings.HasSuffix(got.String(), want) {
		n, err := term.Read(buf)
		if err != nil {
			t.Fatalf("waiting for %q: %v; got %q", want, err, got.String())
		}
		got.Write(buf[:n])
	}
}

func TestConcurrent(t *testing.T) {
	each(t, func(t *testing.T, h *control.Host) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				st, out, _ := run(t, h, control.Exec{ID: int64(i + 1), Argv: []string{"sh", "-c", "echo " + strconv.Itoa(i) + "; exit " + strconv.Itoa(i)}})
				if st.Code != i || out != strconv.Itoa(i)+"\n" {
					t.Errorf("%d: %+v %q", i, st, out)
				}
			})
		}
		wg.Wait()
	})
}

func TestSignal(t *testing.T) {
	each(t, func(t *testing.T, h *control.Host) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		p, err := h.Start(within(t), control.Exec{ID: 1, Argv: []string{"sh", "-c", "trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done"}, Stdout: w})
		defer w.Close()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		if err := p.Signal(int(unix.SIGUSR1)); err != nil {
			t.Fatal(err)
		}
		if st, err := p.Wait(within(t)); err != nil || st.Code != 9 {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

// TestClock: a guest that has a clock of its own is told the time.
func TestClock(t *testing.T) {
	a, b := net.Pipe()
	set := make(chan time.Time, 1)
	go func() {
		_ = shim.Serve(b, shim.Options{SetClock: func(now time.Time) error { set <- now; return nil }})
	}() // ends with the host
	h := control.NewHost(a, nil)
	defer h.Close()
	if _, err := h.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 123)
	if err := h.SetClock(now); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-set:
		if !got.Equal(now) {
			t.Errorf("set to %v, not %v", got, now)
		}
	case <-within(t).Done():
		t.Fatal("not set")
	}
}

func TestRollbackNotice(t *testing.T) {
	dir := t.TempDir()
	a, b := net.Pipe()
	go func() { _ = shim.Serve(b, shim.Options{NotifyDir: dir}) }() // ends with the host
	h := control.NewHost(a, nil)
	defer h.Close()
	if _, err := h.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.RollbackNotify(7); err != nil {
		t.Fatal(err)
	}
	// Messages are handled in order: once this has failed, the notice is there.
	if _, err := h.Start(within(t), control.Exec{ID: 1, Argv: []string{"/no/such"}}); err == nil {
		t.Fatal("started what does not exist")
	}
	data, err := os.ReadFile(filepath.Join(dir, "rollback"))
	if err != nil || string(data) != "7\n" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestD5Further: a command has the files that come with it as the numbers that are said, and ignores from its start what its caller does; the
// next one does not.
func TestD5Further(t *testing.T) {
	each(t, func(t *testing.T, h *control.Host) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		// Without descriptors only the signals are passed.
		_, out, _ := run(t, h, control.Exec{
			ID: 1, Argv: []string{"sh", "-c", "ls /proc/self/fd | grep -x 63; sed -n 's/^SigIgn://p' /proc/self/status"},
			Further: []*os.File{w, r}, Numbers: []int{63, 4}, Ignored: []int{int(unix.SIGHUP), int(unix.SIGINT)},
		})
		w.Close()
		_, then, _ := run(t, h, control.Exec{ID: 2, Argv: []string{"sh", "-c", "ls /proc/self/fd | grep -x 63; sed -n 's/^SigIgn://p' /proc/self/status"}})
		number, ignored, _ := strings.Cut(out, "\n")
		if strings.Contains(t.Name(), "messages") {
			number, ignored = "63", out
		}
		bits := func(s string) uint64 {
			n, err := strconv.ParseUint(strings.TrimSpace(s), 16, 64)
			if err != nil {
				t.Error(err)
			}
			return n & 3
		}
		if number != "63" || bits(ignored) != 3 || bits(then) != 0 {
			t.Errorf("%q, then %q", out, then)
		}
		if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF { // nobody has kept the other end
			t.Errorf("the pipe: %d, %v", n, err)
		}
	})
}
