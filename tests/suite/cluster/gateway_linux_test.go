//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

const (
	account     = "sandbox-gateway"
	gatewayUser = "system:serviceaccount:" + account + ":" + account
	otherTeam   = "team-b" // in which the gateway has no rights
)

var keyA, keyB = "e2b_" + strings.Repeat("a", 40), "e2b_" + strings.Repeat("b", 40)

// gateway is a replica.
type gateway struct {
	c       *cluster
	url     string
	process *process
}

// gateway starts a replica, as the service account of packaging/kubernetes/gateway.yaml.
func (c *cluster) gateway(name string, flags ...string) *gateway {
	c.Helper()
	if _, err := os.Stat(filepath.Join(c.dir, "secret")); err != nil {
		c.write("secret", strings.Repeat("s", 64))
		c.write("keys", keyA+" "+team+"\n"+keyB+" "+otherTeam+"\n")
		answer, err := c.admin.must(http.MethodPost, "/api/v1/namespaces/"+account+"/serviceaccounts/"+account+"/token", "application/json", object{
			"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{"expirationSeconds": 7200},
		})
		c.must(err)
		c.write("token", text(answer, "status", "token"))
	}
	args := append([]string{
		"gateway", "--engine", "kubernetes", "--listen", "127.0.0.1:0", "--keys", c.dir + "/keys", "--secret", c.dir + "/secret", "--domain", "boxes.test",
		"--kube-server", serverURL, "--kube-token", c.dir + "/token", "--kube-ca", c.ca(), "--log-level", "debug", "--log-format", "json",
	}, flags...)
	g := &gateway{c: c, process: c.run(c.T, name, exec.Command(drive.Program(c.T, "sandbox"), args...))}
	says := regexp.MustCompile(`"url":"(http://127.0.0.1:[0-9]+)`)
	c.eventually(name, func() bool {
		b, _ := os.ReadFile(g.process.log)
		if m := says.FindSubmatch(b); m != nil {
			g.url = string(m[1])
		}
		return g.url != "" && g.status("GET", "/ready", "", nil) == http.StatusNoContent
	})
	return g
}

// answer is what a request got.
type answer struct {
	status int
	text   string
}

// try asks. Names of headers and their values follow in turn.
func (g *gateway) try(method, path, body string, headers ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, g.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	return answer{a.StatusCode, string(b)}, err
}

// ask asks the REST API with a key; what is no answer is status 0.
func (g *gateway) ask(key, method, path, body string) answer {
	a, err := g.try(method, path, body, "X-Api-Key", key)
	if err != nil {
		return answer{text: err.Error()}
	}
	return a
}

func (g *gateway) status(method, path, body string, headers []string) int {
	a, _ := g.try(method, path, body, headers...)
	return a.status
}

// expect complains about another status, or another text.
func (g *gateway) expect(what string, a answer, status int, says string) {
	g.c.Helper()
	if a.status != status || !strings.Contains(a.text, says) {
		g.c.Errorf("%s: %d %s, not %d %s", what, a.status, a.text, status, says)
	}
}

// box is a sandbox that was made.
type box struct {
	SandboxID       string `json:"sandboxID"`
	EnvdAccessToken string `json:"envdAccessToken"`
}

func (b box) path() string { return "/sandboxes/" + b.SandboxID }

// create makes a sandbox of a pool.
func (g *gateway) create(pool string) (b box) {
	g.c.Helper()
	return g.createWith(object{"templateID": pool, "timeout": 3600, "metadata": object{"pool": pool}})
}

// createWith makes a sandbox as it is said.
func (g *gateway) createWith(what object) (b box) {
	g.c.Helper()
	body, err := json.Marshal(what)
	g.c.must(err)
	a := g.ask(keyA, "POST", "/v2/sandboxes", string(body))
	if a.status != http.StatusCreated {
		g.c.Fatalf("create: %d %s", a.status, a.text)
	}
	g.c.must(json.Unmarshal([]byte(a.text), &b))
	return b
}

// reaches tells how a sandbox's pod answers.
func (g *gateway) reaches(b box) answer {
	a, err := g.try("POST", "/process.Process/List", "{}", "E2b-Sandbox-Id", b.SandboxID, "X-Access-Token", b.EnvdAccessToken, "Content-Type", "application/json", "Connect-Protocol-Version", "1")
	if err != nil {
		return answer{text: err.Error()}
	}
	return a
}

// runs tells what a command says in a sandbox.
func (g *gateway) runs(b box, command string) (said string) {
	g.c.Helper()
	body, err := json.Marshal(object{"process": object{"cmd": "/bin/sh", "args": []string{"-c", command}}})
	g.c.must(err)
	message := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))) // as Connect has them in streams
	a, err := g.try("POST", "/process.Process/Start", string(append(message, body...)), "E2b-Sandbox-Id", b.SandboxID, "X-Access-Token", b.EnvdAccessToken,
		"Content-Type", "application/connect+json", "Connect-Protocol-Version", "1")
	g.c.must(err)
	if a.status != http.StatusOK {
		return a.text
	}
	for left := []byte(a.text); len(left) > 5; {
		n := 5 + int(binary.BigEndian.Uint32(left[1:]))
		var event object
		g.c.must(json.Unmarshal(left[5:min(n, len(left))], &event))
		out, err := base64.StdEncoding.DecodeString(text(event, "event", "data", "stdout"))
		g.c.must(err)
		said += string(out)
		left = left[min(n, len(left)):]
	}
	return said
}

// claim is a sandbox's claim, as the API server has it.
func (c *cluster) claim(b box) (path string, o object) {
	path = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/" + team + "/sandboxclaims/" + b.SandboxID
	status, o, err := c.admin.do(http.MethodGet, path, "", nil)
	if err != nil || status != http.StatusOK {
		o = nil
	}
	return path, o
}

// pod is a sandbox's pod, as the API server has it; nil: it has none.
func (c *cluster) pod(b box) (name string, o object) {
	c.Helper()
	_, claim := c.claim(b)
	name = text(claim, "status", "sandbox", "name")
	status, o, err := c.admin.do(http.MethodGet, "/api/v1/namespaces/"+team+"/pods/"+name, "", nil)
	if err != nil || status != http.StatusOK {
		o = nil
	}
	return name, o
}

// script runs a script of E2B's SDK.
func (g *gateway) script(name string) {
	g.c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", name)
	cmd.Dir = "../e2b"
	cmd.Env = append(os.Environ(), "E2B_API_KEY="+keyA, "E2B_API_URL="+g.url, "E2B_SANDBOX_URL="+g.url)
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		g.c.Errorf("%s: %v\n%s", name, err, out)
	}
}
