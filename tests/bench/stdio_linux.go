package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

const (
	// asking is how many session.status are in flight at once, asked how many
	// each asks in turn, and in how many rounds.
	asking, asked = 100, 200
	// streamed is how many bytes a command writes.
	streamed = 200_000_000
)

// frontend is a program that speaks the STDIO API, and the client of it.
type frontend struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

func newFrontend(ctx context.Context, l *lab, name string) (*frontend, error) {
	bin, err := program()
	if err != nil {
		return nil, err
	}
	dir, err := l.sub(name)
	if err != nil {
		return nil, err
	}
	f := &frontend{cmd: exec.CommandContext(ctx, bin, "serve", "--protocol", "stdio", "--log-level", "error", "--working-dir", dir, "--undo-dir", dir+".undo")}
	f.cmd.Dir, f.cmd.Stderr = dir, &f.stderr
	f.cmd.Env = append(environ(), "XDG_RUNTIME_DIR="+l.scratch, "XDG_STATE_HOME="+l.scratch)
	if err := f.begin(); err != nil {
		return nil, err
	}
	if err := f.send(`{"type":"session.start","request_id":"start"}`); err != nil {
		return nil, errors.Join(err, f.close())
	}
	if _, err := f.answer("start", nil); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// begin starts the program, with pipes.
func (f *frontend) begin() (err error) {
	if f.in, err = f.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	f.out = bufio.NewReaderSize(out, 256<<10)
	return f.cmd.Start()
}

func (f *frontend) send(line string) error {
	_, err := io.WriteString(f.in, line+"\n")
	return err
}

// answer reads until the response to a request; each gets every line, which is
// valid during the call.
func (f *frontend) answer(id string, each func(line []byte)) ([]byte, error) {
	want := []byte(`{"type":"response","request_id":"` + id + `"`)
	for {
		line, err := f.out.ReadSlice('\n')
		if err != nil {
			return nil, fmt.Errorf("%w before the response to %s: %s", err, id, lastLine(f.stderr.Bytes()))
		}
		if each != nil {
			each(line)
		}
		if bytes.HasPrefix(line, want) {
			if !bytes.Contains(line, []byte(`"status":"ok"`)) {
				return nil, fmt.Errorf("%s", line)
			}
			return bytes.Clone(line), nil
		}
	}
}

func (f *frontend) close() error {
	_ = f.in.Close()
	_, _ = io.Copy(io.Discard, f.out)
	return f.cmd.Wait()
}

// benchStdio measures the STDIO API of the program itself.
func benchStdio(ctx context.Context, l *lab, r *report.Report, rounds int) error {
	f, err := newFrontend(ctx, l, "stdio")
	if err != nil {
		return err
	}
	if err := statuses(ctx, f, r, rounds); err != nil {
		return errors.Join(err, f.close())
	}
	return errors.Join(stream(f, r), f.close())
}

// statuses measures session.status, beside a cat that is sent as many answers:
// what the client, two pipes and the machine take of the same.
func statuses(ctx context.Context, f *frontend, r *report.Report, rounds int) (err error) {
	cat, err := newEcho(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cat.close()) }()
	const ask, answer = `{"type":"session.status","request_id":"%s-%d"}`, `{"type":"response","request_id":"%s-%d","status":"ok"}`
	var alone, ours, cats []time.Duration
	for i := range 4*rounds + 1 {
		one, err := roundTrips(f, ask, 1, asked, "one"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		took, err := roundTrips(f, ask, asking, asked, "r"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		echoed, err := roundTrips(cat, answer, asking, asked, "r"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		if i > 0 { // the first warms up
			alone, ours, cats = append(alone, one...), append(ours, took...), append(cats, echoed...)
		}
	}
	r.Value("stdio", "session.status, one at a time, median", report.MS(percentile(alone, 50)), "ms", 0)
	r.Value("stdio", fmt.Sprintf("session.status, %d at once, median", asking), report.MS(percentile(ours, 50)), "ms", 0)
	r.Value("stdio", fmt.Sprintf("session.status, %d at once, p99", asking), report.MS(percentile(ours, 99)), "ms", 1)
	r.Note("stdio", "as many lines through cat", fmt.Sprintf("median %.3g ms, p99 %.3g ms", report.MS(percentile(cats, 50)), report.MS(percentile(cats, 99))))
	return nil
}

// newEcho is a program that answers with what it is asked.
func newEcho(ctx context.Context) (*frontend, error) {
	f := &frontend{cmd: exec.CommandContext(ctx, "cat")}
	return f, f.begin()
}

// roundTrips asks, from n clients at once, each of them times after another, and
// returns how long each answer took. A request is made of prefix and its client.
func roundTrips(f *frontend, request string, n, times int, prefix string) ([]time.Duration, error) {
	sent := make([]time.Time, n)
	left := make([]int, n)
	lines := make([][]byte, n)
	for i := range n {
		lines[i] = fmt.Appendf(nil, request+"\n", prefix, i)
		left[i] = times
	}
	took := make([]time.Duration, 0, n*times)
	ask := func(i int) error {
		left[i]--
		sent[i] = time.Now()
		_, err := f.in.Write(lines[i])
		return err
	}
	// Whoever is answered asks again; writing must not keep us from reading.
	again := make(chan int, n)
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		for i := range again {
			if err := ask(i); err != nil {
				failed = err
				return
			}
		}
	})
	for i := range n {
		again <- i
	}
	head := []byte(`{"type":"response","request_id":"` + prefix + "-")
	for len(took) < n*times {
		line, err := f.out.ReadSlice('\n')
		now := time.Now()
		if err != nil {
			close(again)
			return nil, err
		}
		rest, ok := bytes.CutPrefix(line, head)
		if !ok {
			continue
		}
		id, _, _ := bytes.Cut(rest, []byte(`"`))
		i, err := strconv.Atoi(string(id))
		if err != nil || !bytes.Contains(rest[:min(len(rest), 40)], []byte(`"ok"`)) {
			close(again)
			return nil, fmt.Errorf("%s", line)
		}
		took = append(took, now.Sub(sent[i]))
		if left[i] > 0 {
			again <- i
		}
	}
	close(again)
	wg.Wait()
	return took, failed
}

// percentile returns the p-th percentile.
func percentile(d []time.Duration, p int) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[min(len(d)*p/100, len(d)-1)]
}

// stream lets a command write a lot and looks at the supervisor's memory.
func stream(f *frontend, r *report.Report) error {
	command := fmt.Sprintf("yes 'a line of output, as programs write it' | head -c %d", streamed)
	payload, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		return err
	}
	start := time.Now()
	if err := f.send(`{"type":"agent.execute","request_id":"stream","payload":` + string(payload) + `}`); err != nil {
		return err
	}
	total, peak, n := 0, 0, 0
	_, err = f.answer("stream", func(line []byte) {
		if n++; n%256 == 0 {
			peak = max(peak, statusKiB(f.cmd.Process.Pid, "VmRSS"))
		}
		if text, ok := bytes.CutPrefix(line, []byte(`{"type":"event.terminal_output","payload":{"stream":"stdout","data":"`)); ok {
			end := bytes.LastIndex(text, []byte(`","step_id"`))
			total += end - bytes.Count(text[:max(end, 0)], []byte(`\n`))
		}
	})
	if err != nil {
		return err
	}
	if total != streamed {
		return fmt.Errorf("%d bytes came of %d", total, streamed)
	}
	took := time.Since(start)
	r.Value("stdio", "supervisor's memory while 200 MB of output are streamed, highest", float64(statusKiB(f.cmd.Process.Pid, "VmHWM"))/1024, "MiB", 64)
	r.Note("stdio", "that took", fmt.Sprintf("%.0f ms, %.0f MB/s; %.0f MiB resident meanwhile", report.MS(took), streamed/1e6/took.Seconds(), float64(peak)/1024))
	return nil
}
