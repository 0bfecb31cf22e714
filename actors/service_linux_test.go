package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// fake is a process that writes to its stdout what the test gives it.
type fake struct {
	out   *os.File
	lent  bool // out is the caller's, who closes it
	once  sync.Once
	ended chan struct{}
	code  int
}

func (p *fake) PID() int { return 0 }

func (p *fake) Terminal() *os.File          { return nil }
func (p *fake) Signal(int) error            { return nil }
func (p *fake) Resize(uint16, uint16) error { return nil }
func (p *fake) Cancel(time.Duration) error  { p.exit(143); return nil }
func (p *fake) exit(code int) {
	p.once.Do(func() {
		p.code = code
		if !p.lent {
			_ = p.out.Close()
		}
		close(p.ended)
	})
}

func (p *fake) Wait(context.Context) (hypervisor.ExitStatus, error) {
	<-p.ended
	return hypervisor.ExitStatus{Code: p.code}, nil
}

type rig struct {
	t *testing.T
	*services
	mu    sync.Mutex
	procs []*fake
	ids   map[int64]bool
	busy  int                 // and 100 for each set of ports
	over  []api.ServiceStatus // in the order in which they ended
	fail  error
	lent  bool // no process has its output itself: it is copied, as a machine's is
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, ids: map[int64]bool{}}
	n := int64(0)
	r.services = newService(serviceOptions{
		Clock:  actortest.NewFakeClock(),
		Number: func() int64 { n++; return n },
		Busy: func() func() {
			r.use(1)
			return func() { r.use(-1) }
		},
		Publish: func(ports []string) ([]string, func(), error) {
			if ports[0] == "taken" {
				return nil, nil, api.ErrService
			}
			r.use(100)
			return ports, func() { r.use(-100) }, nil
		},
		Ended: func(st api.ServiceStatus) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.over = append(r.over, st)
		},
		Exec: func(_ context.Context, c hypervisor.Command) (hypervisor.Process, error) {
			if r.fail != nil {
				return nil, r.fail
			}
			p := &fake{out: c.Stdout, lent: r.lent, ended: make(chan struct{})}
			if !r.lent {
				p.out = dup(t, c.Stdout)
			}
			r.procs, r.ids[c.ID] = append(r.procs, p), true
			return p, nil
		},
	})
	t.Cleanup(func() {
		for _, p := range r.procs {
			p.exit(0)
		}
		r.Close()
		if r.busy != 0 {
			t.Errorf("%d services keep the session", r.busy)
		}
	})
	return r
}

func (r *rig) use(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy += n
}

func (r *rig) start(name string) *fake {
	r.t.Helper()
	if _, err := r.Start(r.t.Context(), api.ServiceRequest{Name: name, Argv: []string{"serve", "it"}}); err != nil {
		r.t.Fatal(err)
	}
	return r.procs[len(r.procs)-1]
}

// TestServiceCopied: where the output is copied, as that of a virtual machine is, all of it is there that was written until the end.
func TestServiceCopied(t *testing.T) {
	r := newRig(t)
	r.lent = true
	p := r.start("web")
	for _, text := range []string{"first\n", "last\n"} {
		if _, err := p.out.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	p.exit(3)
	actortest.Eventually(t, "its end", func() bool { return r.List()[0].State == api.ServiceEnded })
	if out, err := r.Output(api.ServiceOutputRequest{Name: "web"}); err != nil || string(out.Data) != "first\nlast\n" {
		t.Errorf("%q, %v", out.Data, err)
	}
	if _, err := p.out.WriteString("x"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("its pipe is still open: %v", err)
	}
}

// A service runs until it is stopped; its name is taken as long, and its output is kept
// until the name is used again.
func TestServiceLife(t *testing.T) {
	r := newRig(t)
	p := r.start("web")
	if list := r.List(); len(list) != 1 || list[0].State != api.ServiceRunning || list[0].Command != "serve it" {
		t.Errorf("%+v", list)
	}
	if _, err := r.Start(t.Context(), api.ServiceRequest{Name: "web", Argv: []string{"x"}}); !errors.Is(err, api.ErrService) {
		t.Errorf("the same name: %v", err)
	}
	if _, err := p.out.WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	actortest.Eventually(t, "its output", func() bool {
		out, err := r.Output(api.ServiceOutputRequest{Name: "web"})
		return err == nil && string(out.Data) == "hello\n"
	})
	if out, err := r.Output(api.ServiceOutputRequest{Name: "web", Limit: 3}); err != nil || string(out.Data) != "lo\n" || out.Omitted != 3 {
		t.Errorf("%+v, %v", out, err)
	}
	st, err := r.Stop(t.Context(), "web")
	if err != nil || st.State != api.ServiceEnded || *st.ExitCode != 143 || st.EndedAt == nil {
		t.Errorf("%+v, %v", st, err)
	}
	if st, err := r.Stop(t.Context(), "web"); err != nil || *st.ExitCode != 143 {
		t.Errorf("again: %+v, %v", st, err)
	}
	if out, err := r.Output(api.ServiceOutputRequest{Name: "web"}); err != nil || string(out.Data) != "hello\n" {
		t.Errorf("after its end: %+v, %v", out, err)
	}
	r.start("web")
	if list := r.List(); len(list) != 1 || list[0].State != api.ServiceRunning || list[0].OutputBytes != 0 {
		t.Errorf("%+v", list)
	}
	if len(r.ids) != 2 {
		t.Errorf("ids: %v", r.ids)
	}
}

// A service has its ports before it runs and until it has ended; who waits for ends is
// told of each.
func TestServicePorts(t *testing.T) {
	r := newRig(t)
	if _, err := r.Start(t.Context(), api.ServiceRequest{Name: "web", Argv: []string{"x"}, Publish: []string{"taken"}}); !errors.Is(err, api.ErrService) || len(r.List()) != 0 || len(r.procs) != 0 {
		t.Errorf("%v, %+v", err, r.List())
	}
	ports := func(want int) {
		t.Helper()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.busy/100 != want {
			t.Errorf("%d sets of ports are published, want %d", r.busy/100, want)
		}
	}
	r.fail = errors.New("no such program")
	if _, err := r.Start(t.Context(), api.ServiceRequest{Name: "web", Argv: []string{"x"}, Publish: []string{"80:80"}}); !errors.Is(err, r.fail) {
		t.Errorf("%v", err)
	}
	ports(0)
	r.fail = nil
	st, err := r.Start(t.Context(), api.ServiceRequest{Name: "web", Argv: []string{"x"}, Publish: []string{"80:80"}})
	if err != nil || len(st.Publish) != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	ports(1)
	if st, err = r.Stop(t.Context(), "web"); err != nil || len(st.Publish) != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	ports(0)
	actortest.Eventually(t, "word of its end", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.over) == 1 && r.over[0].Name == "web" && r.over[0].State == api.ServiceEnded && *r.over[0].ExitCode == 143
	})
}

// One that writes for ever costs a bounded amount of memory, and its end is kept.
func TestServiceOutputIsBounded(t *testing.T) {
	r := newRig(t)
	p := r.start("loud")
	line := bytes.Repeat([]byte("x"), 64<<10)
	const times = 100
	for range times {
		if _, err := p.out.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.out.WriteString("the end"); err != nil {
		t.Fatal(err)
	}
	total := int64(times*len(line) + len("the end"))
	actortest.Eventually(t, "all of it", func() bool { return r.List()[0].OutputBytes == total })
	out, err := r.Output(api.ServiceOutputRequest{Name: "loud", Limit: 1 << 30})
	if err != nil || len(out.Data) > kept || !bytes.HasSuffix(out.Data, []byte("xthe end")) || out.Omitted+int64(len(out.Data)) != total {
		t.Errorf("%d bytes, %d left out, %v", len(out.Data), out.Omitted, err)
	}
	r.list[0].mu.Lock()
	defer r.list[0].mu.Unlock()
	if n := cap(r.list[0].output); n > 4*kept {
		t.Errorf("%d bytes of memory", n)
	}
}

// What a service wrote before its end is there, however late it is read, and also if
// somebody holds its output open.
func TestServiceLastWords(t *testing.T) {
	r := newRig(t)
	p := r.start("brief")
	other := dup(t, p.out)
	defer other.Close()
	if _, err := p.out.WriteString("last words"); err != nil {
		t.Fatal(err)
	}
	p.exit(0)
	actortest.Eventually(t, "its end", func() bool { return r.List()[0].State == api.ServiceEnded })
	if out, err := r.Output(api.ServiceOutputRequest{Name: "brief"}); err != nil || string(out.Data) != "last words" {
		t.Errorf("%+v, %v", out, err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	if _, err := out.WriteString("late"); err != nil {
		t.Fatal(err)
	}
	if err := in.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	v := &service{}
	v.read(in)
	if string(v.output) != "late" {
		t.Errorf("%q", v.output)
	}
}

// What cannot be is refused, and leaves nothing.
func TestServiceRefused(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"", ".x", "a/b", "a b", strings.Repeat("a", 65), "a\n"} {
		if _, err := r.Start(t.Context(), api.ServiceRequest{Name: name, Argv: []string{"x"}}); !errors.Is(err, api.ErrService) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := r.Start(t.Context(), api.ServiceRequest{Name: "none"}); !errors.Is(err, api.ErrService) {
		t.Errorf("no command: %v", err)
	}
	for _, ask := range []func() error{
		func() error { _, err := r.Stop(t.Context(), "other"); return err },
		func() error { _, err := r.Output(api.ServiceOutputRequest{Name: "other"}); return err },
	} {
		if err := ask(); !errors.Is(err, api.ErrService) || !errors.Is(err, api.ErrNoService) {
			t.Errorf("%v", err)
		}
	}
	r.fail = errors.New("no such program")
	if _, err := r.Start(t.Context(), api.ServiceRequest{Name: "bad", Argv: []string{"x"}}); !errors.Is(err, r.fail) {
		t.Errorf("%v", err)
	}
	r.fail = nil
	for i := range most {
		r.start(fmt.Sprint("s", i))
	}
	if _, err := r.Start(t.Context(), api.ServiceRequest{Name: "more", Argv: []string{"x"}}); !errors.Is(err, api.ErrService) || len(r.List()) != most {
		t.Errorf("one too many: %v, %d", err, len(r.List()))
	}
	r.procs[0].exit(0)
	actortest.Eventually(t, "its end", func() bool { return r.List()[0].State == api.ServiceEnded })
	r.start("s0")
	go func() {
		for _, p := range r.procs {
			p.exit(0)
		}
	}()
	r.Close()
	if _, err := r.Start(t.Context(), api.ServiceRequest{Name: "late", Argv: []string{"x"}}); !errors.Is(err, messages.ErrEnding) {
		t.Errorf("after the end: %v", err)
	}
}
