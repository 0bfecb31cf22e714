package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/screen"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// envd is 'sandbox serve --protocol e2b --role envd' that runs, with both of its listeners.
type envd struct {
	*exec.Cmd
	t             *testing.T
	dir           string
	envd, runtime string // their addresses
	log           strings.Builder
	read          chan struct{} // closed when the log has ended
}

func serveEnvd(t *testing.T, args ...string) *envd {
	t.Helper()
	_, env := newHome(t)
	e := &envd{t: t, dir: t.TempDir(), read: make(chan struct{})}
	for name, content := range map[string]string{"project/src/a": "one", "project/b": "two"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(e.dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(e.dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e.Cmd = screen.Helper(t, "sandbox", append([]string{"serve", "--protocol", "e2b", "--role", "envd", "--listen", "127.0.0.1:0", "--runtime-listen", "127.0.0.1:0", "-C", e.dir}, args...)...)
	e.Env = append(e.Env, env...)
	stderr, err := e.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Process.Kill() })
	begun := make(chan [2]string, 1)
	go func() {
		defer close(e.read)
		var runtime string
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			e.log.WriteString(lines.Text() + "\n")
			var line struct{ Message, Component, Address string }
			switch {
			case json.Unmarshal(lines.Bytes(), &line) != nil:
			case line.Component == "runtime" && line.Address != "":
				runtime = "http://" + line.Address
			case line.Message == "listening":
				begun <- [2]string{"http://" + line.Address, runtime}
			}
		}
	}()
	select {
	case at := <-begun:
		e.envd, e.runtime = at[0], at[1]
	case <-e.read:
		t.Fatalf("it did not begin:\n%s", e.log.String())
	}
	return e
}

// end sends TERM and waits for an end in order.
func (e *envd) end() {
	e.t.Helper()
	if err := e.Process.Signal(syscall.SIGTERM); err != nil {
		e.t.Fatal(err)
	}
	<-e.read
	if err := e.Wait(); err != nil {
		e.t.Errorf("its end: %v\n%s", err, e.log.String())
	}
}

// post sends a request, and returns what comes. The error is of the connection.
func post(url, kind string, body []byte, token string) (status int, answer []byte, err error) {
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", kind)
	if token != "" {
		req.Header.Set("X-Access-Token", token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// TestServeRuntime: agent-sandbox's clients and E2B's use the same sandbox, with the same token once there is one, and the same history.
func TestServeRuntime(t *testing.T) {
	e := serveEnvd(t)
	before := treesnap.MustTake(t, e.dir)
	const asJSON = "application/json"
	ask := func(url, body, token string, want int) []byte {
		t.Helper()
		status, answer, err := post(url, asJSON, []byte(body), token)
		if err != nil || status != want {
			t.Errorf("%s: %d %s, %v", url, status, answer, err)
		}
		return answer
	}
	const remove = `{"command":"rm -r project"}`
	if got := ask(e.runtime+"/execute", remove, "", 200); !bytes.Contains(got, []byte(`"exit_code":0`)) {
		t.Errorf("%s", got)
	}
	const token = "0123456789abcdef"
	ask(e.envd+"/init", `{"accessToken":"`+token+`","envVars":{"GIVEN":"by init"}}`, "", 204)
	ask(e.runtime+"/undo", "", "", 401)
	ask(e.runtime+"/undo", "", token, 200)
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, e.dir))
	if got := ask(e.runtime+"/execute", `{"command":"printenv GIVEN"}`, token, 200); !bytes.Contains(got, []byte("by init")) {
		t.Errorf("%s", got)
	}
	ask(e.runtime+"/execute", remove, token, 200)
	ask(e.envd+"/sandboxes/this/undo", "", token, 200)
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, e.dir))
	e.end()
}

// TestServeDrains: on TERM, with commands under way of clients of both kinds, one of which does not hear TERM itself, they end, whoever waits for them is answered, and their step is closed: the next start has nothing to recover, and
// an undo brings all of it back. A pod has 60 seconds for that.
func TestServeDrains(t *testing.T) {
	e := serveEnvd(t)
	before := treesnap.MustTake(t, e.dir)
	type answered struct {
		status int
		body   string
		err    error
	}
	first, second := make(chan answered, 1), make(chan answered, 1)
	go func() {
		status, b, err := post(e.runtime+"/execute", "application/json", []byte(`{"command":"sh -c 'trap \"\" TERM HUP; rm -r project/src; touch one; while :; do sleep 1; done'"}`), "")
		first <- answered{status, string(b), err}
	}()
	go func() {
		message := `{"process":{"cmd":"/bin/sh","args":["-c","rm project/b; touch two; exec sleep 1000"]}}`
		frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
		status, b, err := post(e.envd+"/process.Process/Start", "application/connect+json", frame, "")
		second <- answered{status, string(b), err}
	}()
	for _, name := range []string{"one", "two"} {
		actortest.Eventually(t, "the command that makes "+name, func() bool { _, err := os.Lstat(filepath.Join(e.dir, name)); return err == nil })
	}
	e.end()
	if a := <-first; a.err != nil || a.status != 200 || !strings.Contains(a.body, `"exit_code":1`) || !strings.Contains(a.body, "it was ended") {
		t.Errorf("the command of agent-sandbox's client: %+v", a)
	}
	if a := <-second; a.err != nil || a.status != 200 || !strings.Contains(a.body, `"end":{`) {
		t.Errorf("the command of E2B's client: %+v", a)
	}
	history := screen.Helper(t, "sandbox", "history", "-C", e.dir, "--json")
	history.Env = e.Env
	out, err := history.Output()
	if err != nil || !bytes.Contains(out, []byte("rm -r project/src")) {
		t.Errorf("%v: %s", err, out)
	}
	undo := screen.Helper(t, "sandbox", "undo", "-C", e.dir)
	undo.Env = e.Env
	if out, err := undo.CombinedOutput(); err != nil || bytes.Contains(out, []byte("recover")) {
		t.Errorf("%v: %s", err, out)
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, e.dir))
}
