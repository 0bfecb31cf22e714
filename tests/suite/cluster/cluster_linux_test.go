//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/npm"
	"github.com/codeagent/sandbox/tests/kit/require"
)

const (
	insideEnv   = "CLUSTER_TEST_INSIDE"
	programsEnv = "SANDBOX_CLUSTER" // a directory with etcd, kube-apiserver and agent-sandbox-controller
	sourcesEnv  = "AGENT_SANDBOX"   // agent-sandbox's sources
	etcdURL     = "http://127.0.0.1:2379"
	serverURL   = "https://127.0.0.1:6443"
	nodeIP      = "10.88.0.1"
	adminToken  = "administrator-of-the-test"
	// patience is how long something may take that is under way: several compilers may run beside this.
	patience = 3 * time.Minute
)

// TestMain runs the tests in a network namespace. What needs the network is there before.
func TestMain(m *testing.M) {
	const network, ready = "network", "ready" // what starts this program again finds it so
	switch where := os.Getenv(insideEnv); {
	case where == "" && os.Geteuid() == 0:
		os.Exit(outside(network))
	case where == network:
		for _, words := range []string{"link set lo up", "addr add " + nodeIP + "/24 dev lo"} {
			if out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "ip %s: %v: %s\n", words, err, out)
				os.Exit(1)
			}
		}
		_ = os.Setenv(insideEnv, ready)
	}
	os.Exit(m.Run())
}

func outside(inside string) int {
	if _, err := npm.Install("../e2b"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"="+inside)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// cluster is an API server with what belongs to it.
type cluster struct {
	*testing.T
	whole    *testing.T // of which T may be a part
	admin    *client
	dir      string
	programs string
	sources  string
	running  *[]*process // that nobody has ended
	server   *process
	node     *node
}

func newCluster(t *testing.T) *cluster {
	require.Root(t)
	require.Program(t, "ip", "iproute2")
	c := &cluster{T: t, whole: t, running: &[]*process{}, programs: os.Getenv(programsEnv), sources: os.Getenv(sourcesEnv)}
	if c.programs == "" || c.sources == "" {
		require.Missing(t, "the programs of a cluster", "make test-cluster")
	}
	c.dir = t.TempDir()
	c.start("etcd", "etcd", "--data-dir", c.dir+"/etcd", "--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL, "--listen-peer-urls", "http://127.0.0.1:2380",
		"--initial-advertise-peer-urls", "http://127.0.0.1:2380", "--initial-cluster", "default=http://127.0.0.1:2380", "--unsafe-no-fsync", "--log-level", "warn")
	c.write("tokens", adminToken+`,admin,admin,"system:masters"`+"\n")
	c.file("audit.yaml", object{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": []string{"RequestReceived"}, "rules": []object{
		{"level": "Metadata", "users": []string{gatewayUser}}, {"level": "None"},
	}})
	c.key()
	c.serve()
	c.file("kubeconfig", object{
		"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": []object{{"name": "c", "context": object{"cluster": "c", "user": "u"}}},
		"users":    []object{{"name": "u", "user": object{"token": adminToken}}},
		"clusters": []object{{"name": "c", "cluster": object{"server": serverURL, "certificate-authority": c.ca()}}},
	})
	c.define()
	c.start("controller", "agent-sandbox-controller", "--kubeconfig", c.dir+"/kubeconfig", "--extensions", "--leader-elect=false", "--enable-webhook=false",
		"--metrics-bind-address", "127.0.0.1:8082", "--health-probe-bind-address", "127.0.0.1:8081")
	return c
}

// ca is the file with the API server's certificate, which it makes for itself.
func (c *cluster) ca() string { return c.dir + "/pki/apiserver.crt" }

// serve starts the API server, and waits until it is ready. It may have run before.
func (c *cluster) serve() {
	c.Helper()
	c.server = c.start("kube-apiserver", "kube-apiserver", "--etcd-servers", etcdURL, "--bind-address", "127.0.0.1", "--advertise-address", nodeIP, "--secure-port", "6443", "--cert-dir", c.dir+"/pki",
		"--token-auth-file", c.dir+"/tokens", "--authorization-mode", "RBAC", "--service-account-issuer", "https://cluster.test", "--service-account-key-file", c.dir+"/accounts.pub",
		"--service-account-signing-key-file", c.dir+"/accounts.key", "--service-cluster-ip-range", "10.99.0.0/16", "--endpoint-reconciler-type", "none",
		"--disable-admission-plugins", "StorageObjectInUseProtection", // a controller that is not here has to agree to the end of a volume
		"--audit-policy-file", c.dir+"/audit.yaml", "--audit-log-path", c.dir+"/audit.log")
	c.eventually("the API server", func() bool {
		if c.admin == nil {
			b, err := os.ReadFile(c.ca())
			if err != nil {
				return false
			}
			c.admin = newClient(b)
		}
		status, _, err := c.admin.do(http.MethodGet, "/readyz", "", nil)
		return err == nil && status == http.StatusOK
	})
}

// key makes the key by which tokens of service accounts are signed.
func (c *cluster) key() {
	c.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	c.must(err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	c.must(err)
	c.write("accounts.key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	c.write("accounts.pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})))
}

// define has agent-sandbox's resources be there. There is one version of them here, so nothing converts others.
func (c *cluster) define() {
	c.Helper()
	files, err := filepath.Glob(filepath.Join(c.sources, "k8s", "crds", "*.yaml"))
	if err != nil || len(files) < 4 {
		c.Fatalf("%s/k8s/crds: %d definitions, %v", c.sources, len(files), err)
	}
	var defined []object
	for _, file := range files {
		for _, o := range objects(c.T, file) {
			o["spec"].(object)["conversion"] = object{"strategy": "None"}
			c.must(c.admin.apply(o, "", ""))
			defined = append(defined, object{"apiVersion": text(o, "spec", "group") + "/v1beta1", "kind": text(o, "spec", "names", "kind")})
		}
	}
	for _, o := range defined { // it begins to serve them one by one
		c.eventually(text(o, "kind"), func() bool {
			path, err := c.admin.pathOf(o, team)
			if err != nil {
				return false
			}
			_, err = c.admin.all(strings.TrimSuffix(path, "/"))
			return err == nil
		})
	}
}

// process is a program that runs until the test ends.
type process struct {
	*exec.Cmd
	log   string
	ended chan struct{}
}

// start starts one of the cluster's programs, which runs until all ends.
func (c *cluster) start(name, program string, args ...string) *process {
	c.Helper()
	return c.run(c.whole, name, exec.Command(filepath.Join(c.programs, program), args...))
}

// run starts a program, which runs until a test ends. What it says goes to a file.
func (c *cluster) run(until *testing.T, name string, cmd *exec.Cmd) *process {
	c.Helper()
	p, err := launch(filepath.Join(c.dir, name+".log"), cmd)
	c.must(err)
	*c.running = append(*c.running, p)
	until.Cleanup(func() {
		c.finish(p, syscall.SIGTERM)
		if b, err := os.ReadFile(p.log); err == nil && until.Failed() {
			lines := strings.Split(string(b), "\n")
			until.Logf("the end of what %s said:\n%s", name, strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
	})
	return p
}

func launch(log string, cmd *exec.Cmd) (*process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{Cmd: cmd, log: log, ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { defer close(p.ended); _ = cmd.Wait() }()
	return p, nil
}

// end ends a process, and kills it when it takes its time.
func (p *process) end(by os.Signal) {
	_ = p.Process.Signal(by)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	select {
	case <-p.ended:
	case <-ctx.Done():
		_ = p.Process.Kill()
		<-p.ended
	}
}

// finish ends one of the cluster's processes, which is expected from then on.
func (c *cluster) finish(p *process, by os.Signal) {
	*c.running = slices.DeleteFunc(*c.running, func(other *process) bool { return other == p })
	p.end(by)
}

// says tells whether a process has said something.
func (p *process) says(text string) bool {
	b, err := os.ReadFile(p.log)
	return err == nil && bytes.Contains(b, []byte(text))
}

func (c *cluster) write(name, text string) {
	c.Helper()
	c.must(os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600))
}

// file writes an object to a file, as JSON, which all take that take YAML.
func (c *cluster) file(name string, o object) {
	c.Helper()
	b, err := json.Marshal(o)
	c.must(err)
	c.write(name, string(b))
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// eventually waits until ok says so, or a process ends that should run.
func (c *cluster) eventually(what string, ok func() bool) {
	c.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	over := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-over:
			c.Fatalf("never happened: %s", what)
		}
		for _, p := range *c.running {
			select {
			case <-p.ended:
				c.Fatalf("%s ended by itself: %v", filepath.Base(p.Path), p.ProcessState)
			default:
			}
		}
	}
}

// packaging is the directory with our manifests.
func (c *cluster) packaging(name string) string {
	return filepath.Join(drive.Module(c.T), "packaging", "kubernetes", name)
}
