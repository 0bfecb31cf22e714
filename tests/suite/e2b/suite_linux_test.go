package e2b

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/npm"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// scriptTimeout bounds each script.
const scriptTimeout = 3 * time.Minute

// server is one that serves until the test ends.
type server struct {
	box       *drive.Sandbox
	url       string
	sandboxes string
	log       *strings.Builder
	stop      func() // ends it
	kill      func() // kills it; once
}

// serve starts a server at a free port.
func serve(t *testing.T, flags ...string) *server {
	t.Helper()
	box := drive.New(t, nil)
	return start(t, box, append([]string{"--sandboxes", filepath.Join(box.State, "sandboxes")}, flags...)...)
}

// start starts one with a state that is there.
func start(t *testing.T, box *drive.Sandbox, flags ...string) *server {
	t.Helper()
	s := &server{box: box, sandboxes: filepath.Join(box.State, "sandboxes"), log: &strings.Builder{}}
	cmd := s.box.Bare(context.WithoutCancel(t.Context()), append([]string{"serve", "--protocol", "e2b", "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "warn"}, flags...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	read := make(chan struct{})
	address := make(chan string, 1)
	go func() {
		defer close(read)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			mu.Lock()
			s.log.WriteString(lines.Text() + "\n")
			mu.Unlock()
			var line struct{ Message, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "listening" {
				address <- line.Address
			}
		}
	}()
	var killed atomic.Bool
	s.kill = func() {
		killed.Store(true)
		_ = cmd.Process.Kill() // it may have ended
		<-read
		_ = cmd.Wait() // before the next server looks whether it lives
	}
	s.stop = sync.OnceFunc(func() {
		if killed.Load() {
			return
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server's end: %v", err)
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.log)
		}
		s.box.CheckResidue(t)
	})
	t.Cleanup(s.stop)
	select {
	case a := <-address:
		s.url = "http://" + a
	case <-read:
		t.Fatalf("the server did not begin:\n%s", s.log)
	}
	return s
}

// run runs a script of the SDK.
func (s *server) run(t *testing.T, dir, script string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "E2B_API_KEY=e2b_"+strings.Repeat("0", 40), "E2B_API_URL="+s.url, "E2B_SANDBOX_URL="+s.url)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// TestSDK runs all scripts, and looks for what they have left.
func TestSDK(t *testing.T) {
	here := drive.Module(t) + "/tests/suite/e2b"
	npm.Modules(t, here)
	require.Program(t, "git", "git")
	require.Program(t, "python3", "python3")
	s := serve(t)
	var env []string
	if os.Getenv("SANDBOX_E2B_LARGE") != "" {
		env = append(env, "LARGE=1")
	}
	for _, script := range []string{"commands", "files", "pty", "git", "undo", "life", "ports"} {
		t.Run(script, func(t *testing.T) { s.run(t, here, script+".mjs", env...) })
	}
	t.Run("example", func(t *testing.T) {
		if out := s.run(t, here, "example.mjs"); !strings.HasSuffix(out, "difference: none\n") {
			t.Errorf("%s", out)
		}
	})
	for _, name := range []string{"sandboxes", "snapshots"} {
		if left, err := os.ReadDir(filepath.Join(s.sandboxes, name)); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v %v", name, left, err)
		}
	}
	s.nothingKept(t)
}

// nothingKept looks whether there is something of sandboxes that have ended: logs, notes, and what is named as they are.
func (s *server) nothingKept(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(s.box.State, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil, strings.HasPrefix(d.Name(), ".new-"): // a note that a kill has cut is nobody's
		case strings.HasPrefix(d.Name(), "home-"):
			t.Errorf("what belongs to a sandbox that has ended is left: %s", path)
		case filepath.Base(filepath.Dir(path)) == "folders", filepath.Base(filepath.Dir(path)) == "policy":
			t.Errorf("a file about a sandbox that has ended is left: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// call sends a request without a body, with a key.
func (s *server) call(t *testing.T, method, path, key string) (int, []byte) {
	t.Helper()
	return s.send(t, method, path, "", http.Header{"X-Api-Key": {key}})
}

// send sends a request.
func (s *server) send(t *testing.T, method, path, body string, headers http.Header) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	req.Header = headers
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res.StatusCode, b
}

// TestKeptVariables: what POST /init has set is there for the next server of the folder, once that has the token, and commands cannot read it where it is kept.
func TestKeptVariables(t *testing.T) {
	box := drive.New(t, nil)
	flags := []string{"--role", "envd", "-C", box.Dir, "--isolation", "jail"}
	token := strings.Repeat("t", 30)
	admitted := http.Header{"X-Access-Token": {token}}
	s := start(t, box, flags...)
	if status, b := s.send(t, "POST", "/init", `{"accessToken":"`+token+`","envVars":{"KEPT":"a secret"}}`, http.Header{}); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, b)
	}
	s.stop()
	s = start(t, box, flags...)
	if status, b := s.send(t, "POST", "/init", `{"accessToken":"`+token+`"}`, http.Header{}); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, b)
	}
	if _, b := s.send(t, "GET", "/envs", "", admitted); !strings.Contains(string(b), `"KEPT":"a secret"`) {
		t.Errorf("%s", b)
	}
	found := false
	err := filepath.WalkDir(box.State, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "variables.json" {
			return err
		}
		found = true
		if status, b := s.send(t, "GET", "/files?path="+path, "", admitted); status != http.StatusNotFound && status != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, status, b)
		}
		return nil
	})
	if err != nil || !found {
		t.Errorf("it is not kept below %s: %v", box.State, err)
	}
}

// TestAtOnce: sandboxes start at the same time, the first of a server too, and end so.
func TestAtOnce(t *testing.T) {
	s := serve(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			status, b := s.call(t, "POST", "/v2/sandboxes", "any")
			var made struct{ SandboxID string }
			if err := json.Unmarshal(b, &made); err != nil || status != http.StatusCreated {
				t.Errorf("%d %s", status, b)
				return
			}
			if status, b := s.call(t, "GET", "/sandboxes/"+made.SandboxID+"/history", "any"); status != http.StatusOK {
				t.Errorf("%d %s", status, b)
			}
			if status, b := s.call(t, "DELETE", "/sandboxes/"+made.SandboxID, "any"); status != http.StatusNoContent {
				t.Errorf("%d %s", status, b)
			}
		})
	}
	all.Wait()
	s.nothingKept(t)
}

// TestKilledServer: of sandboxes that were being made when the server was killed, and of those that are ended after that, nothing is left.
func TestKilledServer(t *testing.T) {
	s := serve(t)
	var all sync.WaitGroup
	var made atomic.Int32
	for range 6 {
		all.Go(func() {
			for { // until it is killed
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v2/sandboxes", nil)
				if err != nil {
					t.Error(err)
					return
				}
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					return
				}
				_ = res.Body.Close()
				if made.Add(1) == 4 {
					s.kill()
				}
			}
		})
	}
	all.Wait()
	s = start(t, s.box, "--sandboxes", s.sandboxes)
	_, b := s.call(t, "GET", "/v2/sandboxes?limit=100", "any")
	var left []struct{ SandboxID string }
	if err := json.Unmarshal(b, &left); err != nil || len(left) < int(made.Load()) {
		t.Fatalf("%d sandboxes of %d: %v %s", len(left), made.Load(), err, b)
	}
	for i, sb := range left {
		if i%2 == 0 {
			if status, b := s.call(t, "POST", "/v2/sandboxes/"+sb.SandboxID+"/connect", "any"); status != http.StatusCreated {
				t.Errorf("%d %s", status, b)
			}
		}
		if status, b := s.call(t, "DELETE", "/sandboxes/"+sb.SandboxID, "any"); status != http.StatusNoContent {
			t.Errorf("%d %s", status, b)
		}
	}
	s.nothingKept(t)
}

// TestKeys: with keys a request needs one of them.
func TestKeys(t *testing.T) {
	key := "e2b_" + strings.Repeat("5", 40)
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--keys", path)
	if status, b := s.call(t, "POST", "/v2/sandboxes", strings.Repeat("x", 20)); status != http.StatusUnauthorized {
		t.Errorf("another key: %d %s", status, b)
	}
	status, b := s.call(t, "POST", "/v2/sandboxes", key)
	var made struct{ SandboxID string }
	if err := json.Unmarshal(b, &made); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s", status, b)
	}
	if status, b := s.call(t, "DELETE", "/sandboxes/"+made.SandboxID, key); status != http.StatusNoContent {
		t.Errorf("%d %s", status, b)
	}
}

// TestExample: the example of docs/e2b.md is the one that was run.
func TestExample(t *testing.T) {
	here := drive.Module(t)
	doc, err := os.ReadFile(filepath.Join(here, "docs", "e2b.md"))
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join(here, "tests", "suite", "e2b", "example.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), "```ts\n"+string(example)+"```") {
		t.Error("docs/e2b.md has another example than example.mjs")
	}
}
