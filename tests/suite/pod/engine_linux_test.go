package pod

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// engine is a podman of the test's own: its images, containers and pods are below one directory.
type engine struct {
	t           *testing.T
	dir         string
	work, state string // the pod's volumes, as this machine sees them
	manifest    string
	path        string // of both probes
	logs        bytes.Buffer
}

// podUser is who the manifest's processes are.
const podUser = 1000

// newEngine makes one, with the images that it needs: no registry is asked.
func newEngine(t *testing.T) *engine {
	t.Helper()
	require.Root(t)
	require.Program(t, "podman", "podman")
	require.Program(t, "runc", "runc") // crun refuses a machine with control groups of both versions
	busybox := require.Program(t, "busybox", "busybox-static")
	program := drive.Program(t, "sandbox")
	dir, err := os.MkdirTemp("/var/tmp", "kube-") // sockets' paths are short
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, dir: dir, work: filepath.Join(dir, "work"), state: filepath.Join(dir, "state"), manifest: filepath.Join(dir, "pod.yaml")}
	t.Cleanup(e.remove)
	for _, d := range []string{e.work, e.state} {
		if err := errors.Join(os.Mkdir(d, 0o755), os.Chown(d, podUser, podUser)); err != nil {
			t.Fatal(err)
		}
	}
	profile, err := os.ReadFile(filepath.Join(drive.Module(t), "packaging/seccomp.json"))
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "sandbox.json"), profile, 0o644), os.WriteFile(filepath.Join(dir, "containers.conf"), e.configuration(), 0o644)); err != nil {
		t.Fatal(err)
	}
	e.load("localhost/pause:test", map[string]string{"bin/busybox": busybox})
	e.load("localhost/sandbox:test", map[string]string{"bin/busybox": busybox, "usr/local/bin/sandbox": program})
	return e
}

// configuration has what differs from machine to machine: limits that are high enough for all that runs here, and not above those of the test, which a root with few rights may not pass; and the image of the container that holds a
// pod's namespaces, which would come from a registry.
func (e *engine) configuration() []byte {
	var limits []string
	for _, l := range []struct {
		name string
		of   int
		most uint64
	}{{"nofile", unix.RLIMIT_NOFILE, 65536}, {"nproc", unix.RLIMIT_NPROC, 32768}} {
		var own unix.Rlimit
		if err := unix.Getrlimit(l.of, &own); err != nil {
			e.t.Fatal(err)
		}
		l.most = min(l.most, own.Max)
		limits = append(limits, fmt.Sprintf(`"%s=%d:%d"`, l.name, l.most, l.most))
	}
	return fmt.Appendf(nil, `[containers]
default_ulimits = [%s]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
infra_image = "localhost/pause:test"
`, strings.Join(limits, ", "))
}

// podman prepares a call.
func (e *engine) podman(args ...string) *exec.Cmd {
	cmd := exec.Command("podman", append([]string{
		"--root", filepath.Join(e.dir, "storage"), "--runroot", filepath.Join(e.dir, "run"), "--tmpdir", filepath.Join(e.dir, "tmp"), "--storage-driver", "vfs",
	}, args...)...)
	cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+filepath.Join(e.dir, "containers.conf"))
	return cmd
}

// must makes a call that has to go well, and returns what it prints.
func (e *engine) must(args ...string) string {
	e.t.Helper()
	cmd := e.podman(args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		e.t.Fatalf("podman %q: %v: %s", args, err, &errs)
	}
	return strings.TrimSpace(string(out))
}

// remove takes all of it away.
func (e *engine) remove() {
	e.keepLog()
	if e.t.Failed() {
		e.t.Logf("the pods' logs:\n%s", &e.logs)
	}
	if out, err := e.podman("pod", "rm", "--all", "--force", "--time", "0").CombinedOutput(); err != nil {
		e.t.Errorf("podman pod rm: %v: %s", err, out)
	}
	if err := os.RemoveAll(e.dir); err != nil {
		e.t.Error(err)
	}
}

// keepLog keeps what the pod has logged.
func (e *engine) keepLog() {
	out, _ := e.podman("logs", container).CombinedOutput()
	e.logs.Write(append(out, '\n'))
}

// gone removes the pod.
func (e *engine) gone() {
	e.t.Helper()
	e.keepLog()
	e.must("pod", "rm", "--force", "--time", "0", "sandbox")
}

// load makes an image of programs of this machine.
func (e *engine) load(name string, programs map[string]string) {
	e.t.Helper()
	read, write := io.Pipe()
	go func() { _ = write.CloseWithError(layer(write, programs)) }()
	cmd := e.podman("import", "--quiet", "--change", `ENTRYPOINT ["/bin/busybox", "sleep", "1000000"]`, "--change", "ENV PATH=/usr/local/bin:/bin", "-", name) // the manifest names another program
	cmd.Stdin = read
	out, err := cmd.CombinedOutput()
	if err != nil {
		e.t.Fatalf("podman import: %v: %s", err, out)
	}
}

// applets are the programs of an image that busybox is.
var applets = []string{"cat", "chmod", "id", "ls", "mv", "rm", "sh", "sleep", "touch", "wc"}

// layer writes the files of an image, as tar has them: directories and a user as packaging/Dockerfile makes them, and programs.
func layer(out io.Writer, programs map[string]string) error {
	const passwd = "root:x:0:0::/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n"
	w := tar.NewWriter(out)
	put := func(h tar.Header, content []byte) error {
		h.Size = int64(len(content))
		err := w.WriteHeader(&h)
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	}
	for _, d := range []string{"bin", "dev", "etc", "proc", "run", "sys", "usr", "usr/local", "usr/local/bin", "home"} {
		if err := put(tar.Header{Typeflag: tar.TypeDir, Name: d + "/", Mode: 0o755}, nil); err != nil {
			return err
		}
	}
	for _, d := range []string{"home/agent", "work", "state"} {
		if err := put(tar.Header{Typeflag: tar.TypeDir, Name: d + "/", Mode: 0o755, Uid: podUser, Gid: podUser}, nil); err != nil {
			return err
		}
	}
	err := errors.Join(put(tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil), put(tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte(passwd)))
	for to, from := range programs {
		b, rerr := os.ReadFile(from)
		err = errors.Join(err, rerr, put(tar.Header{Typeflag: tar.TypeReg, Name: to, Mode: 0o755}, b))
	}
	for _, a := range applets {
		err = errors.Join(err, put(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + a, Linkname: "busybox"}, nil))
	}
	return errors.Join(err, w.Close())
}

type object = map[string]any

// container is what podman calls the manifest's one container.
const container = "sandbox-sandbox"

// write writes the shipped manifest with what podman 4.3 cannot do in another form.
func (e *engine) write() {
	e.t.Helper()
	b, err := os.ReadFile(filepath.Join(drive.Module(e.t), "packaging/kubernetes/pod.yaml"))
	var pod object
	if err = errors.Join(err, yaml.Unmarshal(b, &pod)); err != nil {
		e.t.Fatal(err)
	}
	spec := pod["spec"].(object)
	c := spec["containers"].([]any)[0].(object)
	e.path = c["livenessProbe"].(object)["httpGet"].(object)["path"].(string)
	// It makes no user namespace for a pod, and shows no /proc as it is.
	delete(spec, "hostUsers")
	delete(c["securityContext"].(object), "procMount")
	// It knows the profile by the annotation that was before the field.
	profile := spec["securityContext"].(object)["seccompProfile"].(object)["localhostProfile"].(string)
	pod["metadata"].(object)["annotations"] = object{"seccomp.security.alpha.kubernetes.io/pod": "localhost/" + profile}
	// Probes are ours: its own need curl in the image, and systemd. It does not start the container again: a controller makes a new pod.
	delete(c, "livenessProbe")
	delete(c, "readinessProbe")
	spec["restartPolicy"] = "Never"
	delete(c, "ports") // it would have this machine's ports lead there
	// Images and volumes are this machine's. There are no claims; a directory lasts as well.
	c["image"], c["imagePullPolicy"] = "localhost/sandbox:test", "Never"
	spec["volumes"] = []any{
		object{"name": "work", "hostPath": object{"path": e.work, "type": "Directory"}}, object{"name": "state", "hostPath": object{"path": e.state, "type": "Directory"}},
	}
	if b, err = yaml.Marshal(pod); err == nil {
		err = os.WriteFile(e.manifest, b, 0o644)
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

// play makes a pod of the manifest and waits until its probe is answered.
func (e *engine) play() *played {
	e.t.Helper()
	e.must("kube", "play", "--network", "none", "--seccomp-profile-root", e.dir, e.manifest)
	p := &played{e: e}
	if _, err := fmt.Sscan(e.must("inspect", "--format", "{{.State.Pid}}", container), &p.pid); err != nil || p.pid == 0 {
		e.t.Fatalf("the container does not run: %v: %s", err, e.must("logs", container))
	}
	p.client = http.Client{Transport: &http.Transport{DialContext: p.dial}}
	var last string
	defer func() {
		if e.t.Failed() {
			e.t.Logf("the probe: %s", last)
		}
	}()
	actortest.Eventually(e.t, "the pod's probe", func() bool {
		status, answer, err := p.ask("GET", "49983"+e.path, "", "")
		last = fmt.Sprint(status, answer, err)
		return status == http.StatusNoContent
	})
	return p
}

// played is a pod that runs.
type played struct {
	e      *engine
	pid    int // of its process 1, as this machine sees it
	client http.Client
	token  string
}

// dial connects to a port in the pod's network namespace.
func (p *played) dial(ctx context.Context, network, address string) (net.Conn, error) {
	type dialled struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialled, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this function
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", p.pid))
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		var d dialled
		if d.err = err; err == nil {
			d.conn, d.err = (&net.Dialer{}).DialContext(ctx, network, address)
		}
		done <- d
	}()
	d := <-done
	return d.conn, d.err
}

// ask sends a request to a port of the pod; where is PORT/PATH.
func (p *played) ask(method, where, body, kind string) (int, string, error) {
	port, path, _ := strings.Cut(where, "/")
	req, err := http.NewRequest(method, "http://127.0.0.1:"+port+"/"+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	req.Header.Set("X-Access-Token", p.token)
	res, err := p.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// must is ask with JSON for what has to go well.
func (p *played) must(method, where, body string) string {
	p.e.t.Helper()
	status, answer, err := p.ask(method, where, body, "application/json")
	if err != nil || status >= 300 {
		p.e.t.Fatalf("%s %s: %d %s, %v", method, where, status, answer, err)
	}
	return answer
}
