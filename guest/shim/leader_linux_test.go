package shim_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/inner"
)

func TestMain(m *testing.M) {
	if inner.Invoked(os.Args) { // as a leader
		os.Exit(inner.Main(os.Args))
	}
	os.Exit(m.Run())
}

// job is a command that says when it is stopped.
func job(t *testing.T, h *control.Host, id int64, script string) (p *control.Proc, stopped <-chan int) {
	t.Helper()
	stops := make(chan int, 8)
	p, err := h.Start(within(t), control.Exec{
		ID: id, Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH"), "GODEBUG=schedtrace=1"},
		TTY: &control.TTY{Rows: 24, Cols: 80, Stops: true}, Stopped: func(signal int) { stops <- signal },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Terminal().Close() })
	return p, stops
}

func awaitStop(t *testing.T, stopped <-chan int, want unix.Signal) {
	t.Helper()
	select {
	case got := <-stopped:
		if got != int(want) {
			t.Errorf("stopped by signal %d, want %d", got, want)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("nobody says that it has stopped")
	}
}

// TestD3Stopped: the keys of its terminal stop a command whose host continues it, the host is told, and the end is the command's own. No other command is stopped so.
func TestD3Stopped(t *testing.T) {
	each(t, func(t *testing.T, h *control.Host) {
		p, stopped := job(t, h, 1, "kill -TSTP $$; kill -STOP $$; echo ready; read x; exit 7")
		awaitStop(t, stopped, unix.SIGTSTP)
		goOn := func() {
			t.Helper()
			if err := p.Signal(int(unix.SIGCONT)); err != nil {
				t.Fatal(err)
			}
		}
		goOn()
		awaitStop(t, stopped, unix.SIGSTOP)
		goOn()
		for text := ""; !strings.Contains(text, "ready"); { // a process that is being continued loses the key's signal
			b := make([]byte, 64)
			n, err := p.Terminal().Read(b)
			if err != nil {
				t.Fatal(err)
			}
			text += string(b[:n])
		}
		if _, err := p.Terminal().WriteString("\x1a"); err != nil { // the key
			t.Fatal(err)
		}
		awaitStop(t, stopped, unix.SIGTSTP)
		goOn()
		if _, err := p.Terminal().WriteString("text\n"); err != nil {
			t.Fatal(err)
		}
		if st, err := p.Wait(within(t)); err != nil || st.Code != 7 || st.Signal != 0 {
			t.Errorf("%+v, %v", st, err)
		}

		p, err := h.Start(within(t), control.Exec{ID: 2, Argv: []string{"sh", "-c", "kill -TSTP $$; exit 7"}, TTY: &control.TTY{Rows: 24, Cols: 80}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Terminal().Close()
		if st, err := p.Wait(within(t)); err != nil || st.Code != 7 {
			t.Errorf("without anybody who would continue it: %+v, %v", st, err)
		}
	})
}

// TestD3StoppedEnds: a command that has stopped can be ended in each way, dies of what it dies of, and does not outlive its leader.
func TestD3StoppedEnds(t *testing.T) {
	each(t, func(t *testing.T, h *control.Host) {
		for i, c := range []struct {
			script string
			end    func(p *control.Proc) error
			signal unix.Signal
		}{
			{"kill -TSTP $$; exit 7", func(p *control.Proc) error { return p.Cancel(5 * time.Minute) }, unix.SIGTERM},
			{"trap '' TERM; kill -TSTP $$; while :; do sleep 0.02; done", func(p *control.Proc) error { return p.Cancel(time.Millisecond) }, unix.SIGKILL},
			{"kill -TSTP $$; exit 7", func(p *control.Proc) error { return p.Signal(int(unix.SIGKILL)) }, unix.SIGKILL},
			{"kill -TSTP $$; kill -SEGV $$", func(p *control.Proc) error { return p.Signal(int(unix.SIGCONT)) }, unix.SIGSEGV},
			{"kill -TSTP $$; kill -KILL $PPID; sleep 1000", func(p *control.Proc) error { return p.Signal(int(unix.SIGCONT)) }, unix.SIGKILL},
		} {
			p, stopped := job(t, h, int64(i+1), c.script)
			awaitStop(t, stopped, unix.SIGTSTP)
			if err := c.end(p); err != nil {
				t.Fatal(err)
			}
			if st, err := p.Wait(within(t)); err != nil || st.Signal != int(c.signal) || st.Code != 128+int(c.signal) {
				t.Errorf("%s: %+v, %v; want signal %d", c.script, st, err, c.signal)
			}
			if alive(p.PID()) {
				t.Errorf("%s: it lives on", c.script)
			}
		}
		if _, err := h.Start(within(t), control.Exec{ID: 9, Argv: []string{"/dev/null"}, TTY: &control.TTY{Stops: true}}); err == nil {
			t.Error("started what is no program")
		}
	})
}
