package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// fill makes a tree that the pod's user owns.
func fill(t *testing.T, root string) {
	t.Helper()
	for i := range 400 {
		dir := filepath.Join(root, "project", fmt.Sprintf("d%d", i%20))
		name := filepath.Join(dir, fmt.Sprintf("f%d", i))
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(name, fmt.Appendf(nil, "content %d\n", i), 0o640), os.Chown(name, podUser, podUser), os.Chown(dir, podUser, podUser)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(root, "project"), podUser, podUser); err != nil {
		t.Fatal(err)
	}
}

// execute runs a shell script in the pod by agent-sandbox's API.
func (p *played) execute(script string) (out string) {
	p.e.t.Helper()
	body, err := json.Marshal(map[string]string{"command": "sh -c '" + script + "'"})
	if err != nil {
		p.e.t.Fatal(err)
	}
	answer := p.must("POST", "8888/execute", string(body))
	var res struct {
		Stdout, Stderr string
		ExitCode       int `json:"exit_code"`
	}
	if err := json.Unmarshal([]byte(answer), &res); err != nil || res.ExitCode != 0 {
		p.e.t.Fatalf("%s: %s", script, answer)
	}
	return res.Stdout
}

// admitted gives the pod its token.
func (p *played) admitted() *played {
	p.e.t.Helper()
	const token = "0123456789abcdef0123"
	if status, answer, err := p.ask("POST", "8888/execute", `{"command":"true"}`, "application/json"); err != nil || status != 401 {
		p.e.t.Errorf("before there is a token: %d %s, %v", status, answer, err)
	}
	p.must("POST", "49983/init", `{"accessToken":"`+token+`"}`)
	p.token = token
	return p
}

// TestKubePlay: the shipped pod, run by podman. It is killed (KILL) in the middle of an "rm -rf", and the next pod on the same volumes has the tree as it was before that step, and its history: what was done before it is undone, too. Then it ends on
// TERM, with a command under way whose step is closed, which a third pod undoes.
func TestKubePlay(t *testing.T) {
	e := newEngine(t)
	fill(t, e.work)
	e.write()
	before := treesnap.MustTake(t, e.work)
	p := e.play().admitted()
	if out := p.execute("id -u; pwd; mv project/d1 moved; echo more >>project/d2/f2; echo new >new; chmod 600 project/d3/f3"); out != "1000\n/work\n" {
		t.Errorf("%q", out)
	}
	after := treesnap.MustTake(t, e.work)

	begun := filepath.Join(e.work, "begun")
	go func() { // nobody answers it
		_, _, _ = p.ask("POST", "8888/execute", `{"command":"sh -c 'rm -rf project/d4; touch begun; rm -rf project moved new; exec sleep 1000'"}`, "application/json")
	}()
	actortest.Eventually(t, "the rm -rf", func() bool { _, err := os.Lstat(begun); return err == nil })
	if err := unix.Kill(p.pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e.must("wait", container)
	if len(treesnap.Diff(after, treesnap.MustTake(t, e.work), treesnap.Options{})) == 0 {
		t.Error("the kill came before anything was removed")
	}
	e.gone()

	p = e.play().admitted()
	treesnap.AssertEqual(t, after, treesnap.MustTake(t, e.work))
	if out := p.execute("ls | wc -l"); strings.TrimSpace(out) != "3" {
		t.Errorf("%q", out)
	}
	p.must("POST", "49983/sandboxes/this/undo", "")
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, e.work))

	ended := make(chan string, 1)
	go func() {
		_, answer, err := p.ask("POST", "8888/execute", `{"command":"sh -c 'rm -rf project/d5; touch begun; exec sleep 1000'"}`, "application/json")
		ended <- fmt.Sprint(answer, err)
	}()
	actortest.Eventually(t, "the rm -rf", func() bool { _, err := os.Lstat(begun); return err == nil })
	e.must("stop", "--time", "60", container)
	if got := e.must("inspect", "--format", "{{.State.ExitCode}}", container); got != "0" {
		t.Errorf("TERM: it ended with %s", got)
	}
	if got := <-ended; !strings.Contains(got, "it was ended: the session is ending") {
		t.Errorf("TERM: the command's client was told %s", got)
	}
	e.gone()
	p = e.play().admitted()
	p.must("POST", "8888/undo", "")
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, e.work))
}
