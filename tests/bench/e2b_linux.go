package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/codeagent/sandbox/tests/bench/internal/report"
	"github.com/codeagent/sandbox/tests/kit/npm"
)

const (
	e2bTransfer  = 100 << 20 // bytes
	e2bFiles     = 10_000    // that are deleted
	e2bSandboxes = 100       // at once
	e2bClients   = 10        // that make and end them
	e2bCommands  = 50        // of the SDK in each round
	e2bGroup     = "e2b"
)

// e2bServer is bin/sandbox serving E2B's protocol, and a client of it.
type e2bServer struct {
	cmd *exec.Cmd
	url string
	l   *lab
}

func newE2BServer(ctx context.Context, l *lab) (*e2bServer, error) {
	bin, err := program()
	if err != nil {
		return nil, err
	}
	dir, err := l.sub("e2b")
	if err != nil {
		return nil, err
	}
	s := &e2bServer{l: l, cmd: exec.CommandContext(ctx, bin, "serve", "--protocol", "e2b", "--listen", "127.0.0.1:0", "--sandboxes", dir, "--undo-dir", dir+".undo", "--log-format", "json", "--log-level", "warn")}
	s.cmd.Env = append(environ(), "XDG_RUNTIME_DIR="+l.scratch, "XDG_STATE_HOME="+l.scratch)
	stderr, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stderr)
	for s.url == "" && lines.Scan() {
		var line struct{ Message, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "listening" {
			s.url = "http://" + line.Address
		}
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	if s.url == "" {
		return nil, errors.Join(errors.New("the server did not begin"), s.close())
	}
	return s, nil
}

func (s *e2bServer) close() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	return s.cmd.Wait()
}

// call sends a request and reads the answer into result, if that is not nil.
func (s *e2bServer) call(ctx context.Context, method, path, kind string, body []byte, box e2bBox, result any) error {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	if box.ID != "" {
		req.Header.Set("E2b-Sandbox-Id", box.ID)
		req.Header.Set("X-Access-Token", box.Token)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode >= 300:
		return fmt.Errorf("%s %s: %d: %s", method, path, answer.StatusCode, b)
	case result != nil:
		return json.Unmarshal(b, result)
	}
	return nil
}

// e2bBox is a sandbox.
type e2bBox struct {
	ID    string `json:"sandboxID"`
	Token string `json:"envdAccessToken"`
}

func (s *e2bServer) create(ctx context.Context) (box e2bBox, err error) {
	return box, s.call(ctx, http.MethodPost, "/v2/sandboxes", "application/json", []byte(`{"templateID":"base","timeout":3600}`), e2bBox{}, &box)
}

func (s *e2bServer) kill(ctx context.Context, box e2bBox) error {
	return s.call(ctx, http.MethodDelete, "/sandboxes/"+box.ID, "application/json", nil, e2bBox{}, nil)
}

// run runs a command to its end.
func (s *e2bServer) run(ctx context.Context, box e2bBox, command string) error {
	message, err := json.Marshal(map[string]any{"process": map[string]any{"cmd": "/bin/bash", "args": []string{"-l", "-c", command}}, "stdin": false})
	if err != nil {
		return err
	}
	return s.call(ctx, http.MethodPost, "/process.Process/Start", "application/connect+json", e2bFrame(0, message), box, nil)
}

// e2bFrame is one message of a stream.
func e2bFrame(flags byte, message []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(message)))
	return append(b, message...)
}

// benchE2B measures what programs that use E2B's SDK wait for.
func benchE2B(ctx context.Context, l *lab, r *report.Report, rounds int) (err error) {
	s, err := newE2BServer(ctx, l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return errors.Join(s.undos(ctx, r, rounds), s.starts(ctx, r, rounds), s.sdk(ctx, r, rounds), s.transfers(ctx, r, rounds), s.many(ctx, r))
}

// starts measures a sandbox from the request for it to the end of its first command.
func (s *e2bServer) starts(ctx context.Context, r *report.Report, rounds int) error {
	var took []time.Duration
	for range 5*rounds + 1 {
		begin := time.Now()
		box, err := s.create(ctx)
		if err == nil {
			err = s.run(ctx, box, "true")
		}
		took = append(took, time.Since(begin))
		if err = errors.Join(err, s.kill(ctx, box)); err != nil {
			return err
		}
	}
	r.Value(e2bGroup, "from the request for a sandbox to the end of its first command", report.MS(report.Median(took[1:])), "ms", 150)
	return nil
}

// sdk compares commands.run('true') of the SDK with the same against a server that answers at once.
func (s *e2bServer) sdk(ctx context.Context, r *report.Report, rounds int) error {
	here, err := filepath.Abs("tests/suite/e2b")
	if err == nil {
		_, err = npm.Install(here)
	}
	if err != nil {
		r.Missing(e2bGroup, "commands.run('true') by the SDK", err)
		return nil
	}
	stub := httptest.NewServer(http.HandlerFunc(e2bStub))
	defer stub.Close()
	var ours, theirs []time.Duration
	for range rounds {
		for _, side := range []struct {
			url  string
			into *[]time.Duration
		}{{s.url, &ours}, {stub.URL, &theirs}} {
			took, err := sdkRuns(ctx, here, side.url)
			if err != nil {
				return err
			}
			*side.into = append(*side.into, took...)
		}
	}
	r.Ratio(e2bGroup, "commands.run('true') by the SDK / the same with a server that answers at once", ours, theirs, 0)
	return nil
}

func sdkRuns(ctx context.Context, here, url string) (took []time.Duration, err error) {
	cmd := exec.CommandContext(ctx, "node", "bench.mjs")
	cmd.Dir = here
	cmd.Env = append(environ(), "E2B_API_KEY=e2b_"+strings.Repeat("0", 40), "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "COUNT="+strconv.Itoa(e2bCommands))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("node bench.mjs: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		ms, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
		if err != nil {
			return nil, err
		}
		took = append(took, time.Duration(ms*float64(time.Millisecond)))
	}
	return took, nil
}

// e2bStub answers as a server whose commands take no time.
func e2bStub(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch {
	case strings.HasSuffix(r.URL.Path, "/Start"):
		w.Header().Set("Content-Type", "application/connect+json")
		for _, m := range []string{`{"event":{"start":{"pid":7}}}`, `{"event":{"end":{"exitCode":0,"exited":true,"status":"exit status 0"}}}`} {
			_, _ = w.Write(e2bFrame(0, []byte(m)))
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = w.Write(e2bFrame(2, []byte("{}")))
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"sandboxID":"abcdefghij0123456789","templateID":"base","clientID":"stub","envdVersion":"0.6.4","envdAccessToken":"stub"}`)
	}
}

// transfers compares an upload and a download with a plain file server of Go's.
func (s *e2bServer) transfers(ctx context.Context, r *report.Report, rounds int) (err error) {
	box, err := s.create(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.kill(ctx, box)) }()
	dir, err := s.l.sub("plain")
	if err != nil {
		return err
	}
	plain := &e2bServer{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := filepath.Join(dir, "file")
		if r.Method == http.MethodGet {
			http.ServeFile(w, r, path)
			return
		}
		f, err := os.Create(path)
		if err == nil {
			_, err = io.Copy(f, r.Body)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	plain.url = server.URL
	data := bytes.Repeat([]byte("0123456789abcdef"), e2bTransfer/16)
	var took [4][]time.Duration
	for i := range rounds + 1 {
		for k, one := range []func() error{
			func() error {
				return s.call(ctx, http.MethodPost, "/files?path=file", "application/octet-stream", data, box, nil)
			},
			func() error {
				return plain.call(ctx, http.MethodPost, "/", "application/octet-stream", data, e2bBox{}, nil)
			},
			func() error { return s.call(ctx, http.MethodGet, "/files?path=file", "", nil, box, nil) },
			func() error { return plain.call(ctx, http.MethodGet, "/", "", nil, e2bBox{}, nil) },
		} {
			begin := time.Now()
			if err := one(); err != nil {
				return err
			}
			if i > 0 {
				took[k] = append(took[k], time.Since(begin))
			}
		}
	}
	r.Ratio(e2bGroup, "100 MiB uploaded / to a file server of Go's", took[0], took[1], 2)
	r.Ratio(e2bGroup, "100 MiB downloaded / from a file server of Go's", took[2], took[3], 2)
	return nil
}

// undos compares the undo of rm -rf by HTTP with that of the command line, in the same sandbox.
func (s *e2bServer) undos(ctx context.Context, r *report.Report, rounds int) (err error) {
	box, err := s.create(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.kill(ctx, box)) }()
	bin, err := program()
	if err != nil {
		return err
	}
	home := filepath.Join(s.l.dir, "e2b", "sandboxes", box.ID, "home")
	if err := s.run(ctx, box, fmt.Sprintf("mkdir tree; for i in $(seq 100); do mkdir tree/$i; for j in $(seq %d); do echo $j >tree/$i/$j; done; done", e2bFiles/100)); err != nil {
		return err
	}
	var byHTTP, cli []time.Duration
	for range rounds {
		if err := s.run(ctx, box, "rm -rf tree"); err != nil {
			return err
		}
		begin := time.Now()
		if err := s.call(ctx, http.MethodPost, "/sandboxes/"+box.ID+"/undo", "application/json", []byte("{}"), e2bBox{}, nil); err != nil {
			return err
		}
		byHTTP = append(byHTTP, time.Since(begin))
		if err := s.run(ctx, box, "rm -rf tree"); err != nil {
			return err
		}
		undo := exec.CommandContext(ctx, bin, "undo", "--undo-dir", filepath.Join(s.l.dir, "e2b.undo"))
		undo.Dir, undo.Env = home, s.cmd.Env
		begin = time.Now()
		if out, err := undo.CombinedOutput(); err != nil {
			return fmt.Errorf("sandbox undo: %w: %s", err, out)
		}
		cli = append(cli, time.Since(begin))
	}
	r.Ratio(e2bGroup, "undo of rm -rf of 10,000 files by HTTP / by the command line", byHTTP, cli, 1.2)
	return nil
}

// many measures what idle sandboxes take, and their start and end.
func (s *e2bServer) many(ctx context.Context, r *report.Report) error {
	for _, clients := range []int{1, e2bClients} {
		boxes := make([]e2bBox, e2bSandboxes)
		made, err := byClients(clients, func(i int) (err error) {
			boxes[i], err = s.create(ctx)
			return err
		})
		if err != nil {
			return err
		}
		if clients == 1 {
			kib := treePSS(s.cmd.Process.Pid)
			r.Value(e2bGroup, "an idle sandbox of 100, with its part of the server (Pss)", float64(kib)/e2bSandboxes/1024, "MiB", 40)
		}
		killed, err := byClients(clients, func(i int) error { return s.kill(ctx, boxes[i]) })
		if err != nil {
			return err
		}
		r.Note(e2bGroup, fmt.Sprintf("100 sandboxes, by %d at a time", clients), fmt.Sprintf("made in %.3g s, killed in %.3g s", made.Seconds(), killed.Seconds()))
	}
	return nil
}

// byClients calls f for each of the sandboxes, by so many clients at the same time.
func byClients(clients int, f func(i int) error) (time.Duration, error) {
	var all sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, clients)
	begin := time.Now()
	for c := range clients {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < e2bSandboxes && errs[c] == nil; i = int(next.Add(1)) - 1 {
				errs[c] = f(i)
			}
		})
	}
	all.Wait()
	return time.Since(begin), errors.Join(errs...)
}

// treePSS is the proportional memory, in KiB, of a process and all that has come of it: a child is counted with its own.
func treePSS(pid int) int {
	kib := memoryKiB(pid, "smaps_rollup", "Pss")
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range threads {
		list, _ := os.ReadFile(path) // a thread may have ended
		for word := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(word); err == nil {
				kib += treePSS(child)
			}
		}
	}
	return kib
}
