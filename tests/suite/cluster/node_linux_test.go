//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

const (
	team     = "team-a"
	mostPods = 32
	// nowhere is the label of nodes that there are not.
	nowhere = "nowhere"
	podPort = "49983"
)

// node plays what a cluster has besides its API server and agent-sandbox: the scheduler, a kubelet with its containers, and the collector of what has no owner.
type node struct {
	c     *cluster
	boxes []*drive.Sandbox // one for each pod's name: its volumes

	mu       sync.Mutex
	pods     map[string]*pod // by name
	slow     map[string]bool // the pods, by name, that do not end yet although they are told to
	problems []string
}

// pod is one that is run, or was: its volumes stay.
type pod struct {
	box     *drive.Sandbox
	address string
	uid     string
	process *process
	ready   bool
	told    bool // that it cannot be scheduled
}

// newNode starts to play.
func newNode(c *cluster) *node {
	n := &node{c: c, pods: map[string]*pod{}, slow: map[string]bool{}}
	for range mostPods {
		n.boxes = append(n.boxes, drive.New(c.T, nil))
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			n.pass()
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	c.Cleanup(func() {
		cancel()
		<-ended
		for name, p := range n.pods {
			n.stop(p)
			p.box.CheckResidue(c.T)
			if b, err := os.ReadFile(n.log(name)); err == nil && c.Failed() {
				c.Logf("what the pod %s said:\n%s", name, b)
			}
		}
		for _, problem := range n.problems {
			c.Error(problem)
		}
	})
	return n
}

func (n *node) log(name string) string { return filepath.Join(n.c.dir, "pod-"+name+".log") }

// pass does what there is to do. While the API server is away that is nothing.
func (n *node) pass() {
	n.mu.Lock()
	defer n.mu.Unlock()
	base := "/api/v1/namespaces/" + team + "/pods"
	pods, err := n.c.admin.all(base)
	if err != nil {
		return
	}
	for _, o := range pods {
		if err := n.play(base+"/"+text(o, "metadata", "name"), o); err != nil {
			n.c.Logf("the node: %v", err) // the pod may have gone meanwhile, and the server may go away at any time
		}
	}
	n.collect(pods)
}

// play brings a pod a step on.
func (n *node) play(path string, o object) error {
	name := text(o, "metadata", "name")
	p := n.pods[name]
	if p == nil {
		if len(n.boxes) == 0 {
			n.problems = append(n.problems, "there are more pods than the test has folders")
			return nil
		}
		p = &pod{box: n.boxes[0], address: fmt.Sprintf("10.88.0.%d", 9+len(n.boxes))}
		n.pods[name], n.boxes = p, n.boxes[1:]
		if out, err := exec.Command("ip", "addr", "add", p.address+"/24", "dev", "lo").CombinedOutput(); err != nil {
			n.problems = append(n.problems, string(out))
		}
	}
	if uid := text(o, "metadata", "uid"); p.uid != uid {
		n.stop(p)
		p.uid, p.ready, p.told = uid, false, false
	}
	switch {
	case text(o, "metadata", "deletionTimestamp") != "" && n.slow[name]: // its process has not heard of it, and answers
	case text(o, "metadata", "deletionTimestamp") != "":
		n.stop(p)
		_, err := n.c.admin.must(http.MethodDelete, path+"?gracePeriodSeconds=0", "", nil)
		return err
	case at(o, "spec", "nodeSelector", nowhere) != nil:
		if p.told {
			return nil
		}
		p.told = true
		return n.unschedulable(o)
	case text(o, "spec", "nodeName") == "":
		_, err := n.c.admin.must(http.MethodPost, path+"/binding", "application/json", object{
			"apiVersion": "v1", "kind": "Binding", "metadata": object{"name": name}, "target": object{"kind": "Node", "name": "node"},
		})
		return err
	case p.process == nil:
		return n.run(name, p, o)
	case !p.ready && healthy(p.address):
		now := time.Now().UTC().Format(time.RFC3339)
		err := n.c.admin.merge(path+"/status", object{"status": object{
			"phase": "Running", "podIP": p.address, "podIPs": []object{{"ip": p.address}}, "hostIP": nodeIP, "startTime": now,
			"conditions": []object{{"type": "Ready", "status": "True", "lastTransitionTime": now}},
		}})
		p.ready = err == nil
		return err
	}
	return nil
}

// run starts what the pod's container runs, with the pod's address and volumes in place of a container's.
func (n *node) run(name string, p *pod, o object) error {
	var args []string
	command, _ := at(list(o, "spec", "containers")[0], "command").([]any)
	for _, w := range command[1:] {
		word := strings.NewReplacer("0.0.0.0", p.address, "/work", p.box.Dir).Replace(fmt.Sprint(w))
		args = append(args, word)
	}
	started, err := launch(n.log(name), p.box.Bare(context.Background(), args...))
	p.process = started
	return err
}

// stop ends a pod's process, as a kubelet would.
func (n *node) stop(p *pod) {
	if p.process != nil {
		p.process.end(syscall.SIGTERM)
	}
	p.process = nil
}

// slowly says whether a pod takes its time to end.
func (n *node) slowly(name string, is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow[name] = is
}

// restart kills a pod's process. It is started again at once, as a kubelet would do it.
func (n *node) restart(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[name]
	p.process.end(syscall.SIGKILL)
	p.process = nil
}

func healthy(address string) bool {
	a, err := (&http.Client{Timeout: 5 * time.Second}).Get("http://" + address + ":" + podPort + "/health")
	if err != nil {
		return false
	}
	_ = a.Body.Close()
	return a.StatusCode == http.StatusNoContent
}

// unschedulable says what the scheduler does of a pod that no node takes.
func (n *node) unschedulable(o object) error {
	pod := text(o, "metadata", "name")
	_, err := n.c.admin.must(http.MethodPost, "/apis/events.k8s.io/v1/namespaces/"+team+"/events", "application/json", object{
		"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": object{"name": pod + ".1"}, "eventTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
		"reportingController": "default-scheduler", "reportingInstance": "default-scheduler-0", "action": "Scheduling", "type": "Warning", "reason": "FailedScheduling",
		"note":      "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
		"regarding": object{"apiVersion": "v1", "kind": "Pod", "namespace": team, "name": pod, "uid": text(o, "metadata", "uid")},
	})
	return err
}

// collect deletes what belongs to something that is not there any more. The owned were listed before the owners.
func (n *node) collect(pods []object) {
	const boxes, ours = "/apis/agents.x-k8s.io/v1beta1/namespaces/" + team + "/", "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/" + team + "/"
	owned := map[string]object{} // by path
	for _, o := range pods {
		owned["/api/v1/namespaces/"+team+"/pods/"+text(o, "metadata", "name")] = o
	}
	owners := map[string]bool{}
	for _, path := range []string{"/api/v1/namespaces/" + team + "/persistentvolumeclaims", boxes + "sandboxes", ours + "sandboxclaims", ours + "sandboxwarmpools"} {
		all, err := n.c.admin.all(path)
		if err != nil {
			return
		}
		for _, o := range all {
			owners[text(o, "metadata", "uid")] = true
			if !strings.HasPrefix(path, ours) {
				owned[path+"/"+text(o, "metadata", "name")] = o
			}
		}
	}
	for path, o := range owned {
		refs := list(o, "metadata", "ownerReferences")
		if len(refs) > 0 && !owners[text(refs[0], "uid")] && text(o, "metadata", "deletionTimestamp") == "" {
			_, _, _ = n.c.admin.do(http.MethodDelete, path, "", nil)
		}
	}
}
