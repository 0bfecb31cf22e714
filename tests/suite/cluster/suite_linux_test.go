//go:build cluster

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestCluster tries all in one cluster, one after the other: to start it takes longer than what is tried.
func TestCluster(t *testing.T) {
	c := newCluster(t)
	c.must(c.admin.apply(object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": team, "labels": object{"pod-security.kubernetes.io/enforce": "baseline"}}}, "", ""))
	c.must(c.admin.apply(object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": otherTeam}}, "", ""))
	for _, namespace := range []string{"default", team} { // as a cluster's controllers do
		c.must(c.admin.apply(object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": "default"}}, namespace, ""))
	}
	for _, o := range objects(t, c.packaging("gateway.yaml")) {
		c.must(c.admin.apply(o, "default", ""))
	}
	c.step("manifests", (*cluster).manifests)
	c.pools()
	c.node = newNode(c)
	a, b := c.gateway("gateway-a"), c.gateway("gateway-b")
	for _, s := range []struct {
		name string
		f    func(c *cluster, a, b *gateway)
	}{
		{"sdk", func(_ *cluster, a, _ *gateway) { a.script("fleet.mjs") }},
		{"replicas", (*cluster).replicas}, {"pod again", (*cluster).podAgain}, {"conflicts", (*cluster).conflicts}, {"many changes", (*cluster).manyChanges}, {"connect to what ends", (*cluster).connectsEnding}, {"somebody else", (*cluster).somebodyElse},
		{"end", (*cluster).end}, {"pause at the end", (*cluster).pausesAtEnd}, {"never ready", (*cluster).neverReady}, {"other tenant", (*cluster).otherTenant}, {"outage", (*cluster).outage}, {"too old", (*cluster).tooOld}, {"many", (*cluster).many},
	} {
		c.step(s.name, func(c *cluster) { s.f(c, a.of(c), b.of(c)) })
	}
	c.step("nothing is left", (*cluster).nothingLeft)
	c.step("rights", (*cluster).rights)
}

// step runs a part as a test of its own.
func (c *cluster) step(name string, f func(*cluster)) {
	c.Run(name, func(t *testing.T) {
		part := *c
		part.T = t
		f(&part)
		c.server = part.server // it may be another one now
	})
}

// of is the replica in a part of the test.
func (g *gateway) of(c *cluster) *gateway { return &gateway{c, g.url, g.process} }

// pools has warm pools be there: that of packaging/kubernetes/warmpool.yaml, with two pods, one that is empty, and one whose pods no node takes.
func (c *cluster) pools() {
	c.Helper()
	manifest := objects(c.T, c.packaging("warmpool.yaml"))
	template, pool := manifest[0], manifest[1]
	pool["spec"].(object)["replicas"] = 2
	c.must(c.admin.apply(template, team, ""))
	c.must(c.admin.apply(pool, team, ""))
	pool["spec"].(object)["replicas"] = 0
	pool["metadata"] = object{"name": "cold"}
	c.must(c.admin.apply(pool, team, ""))
	template["metadata"], pool["metadata"] = object{"name": "stuck"}, object{"name": "stuck"}
	at(template, "spec", "podTemplate", "spec").(object)["nodeSelector"] = object{nowhere: "yes"}
	pool["spec"].(object)["sandboxTemplateRef"] = object{"name": "stuck"}
	c.must(c.admin.apply(template, team, ""))
	c.must(c.admin.apply(pool, team, ""))
}

// manifests: the server takes each of them as it is, with no field that it does not know, and the pods that they make.
func (c *cluster) manifests() {
	for _, file := range []string{"pod.yaml", "any-image.yaml", "networkpolicy.yaml", "seccomp.yaml", "warmpool.yaml", "gateway.yaml"} {
		for _, o := range objects(c.T, c.packaging(file)) {
			namespace := team
			if file == "seccomp.yaml" { // writes to the node: not at the level "baseline"
				namespace = "default"
			}
			if err := c.admin.apply(o, namespace, "dryRun=All"); err != nil {
				c.Errorf("%s: %v", file, err)
			}
			for _, path := range [][]string{{"spec", "template"}, {"spec", "podTemplate"}} {
				template, ok := at(o, path...).(object)
				if !ok {
					continue
				}
				metadata := object{"name": "tried", "labels": at(template, "metadata", "labels")}
				if own := text(o, "metadata", "namespace"); own != "" {
					metadata["namespace"] = own
				}
				spec := maps.Clone(template["spec"].(object))
				for _, v := range list(o, "spec", "volumeClaimTemplates") { // as agent-sandbox adds them
					volumes, _ := spec["volumes"].([]any)
					spec["volumes"] = append(volumes, object{"name": text(v, "metadata", "name"), "emptyDir": object{}})
				}
				if err := c.admin.apply(object{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, namespace, "dryRun=All"); err != nil {
					c.Errorf("%s: a pod of %s: %v", file, text(o, "kind"), err)
				}
			}
		}
	}
}

// replicas: any of them answers any request, at once.
func (c *cluster) replicas(a, b *gateway) {
	o := a.create("cold") // nothing is warm: the controller makes a Sandbox for it
	b.expect("the other replica's", b.reaches(o), 200, "")
	c.eventually("the other replica's list", func() bool { return strings.Contains(b.ask(keyA, "GET", "/v2/sandboxes", "").text, o.SandboxID) })
	b.expect("pause", b.ask(keyA, "POST", o.path()+"/pause", ""), 204, "")
	c.eventually("the first hears of the pause", func() bool { return a.reaches(o).status == 502 })
	a.expect("connect", a.ask(keyA, "POST", o.path()+"/connect", `{"timeout":600}`), 201, o.EnvdAccessToken)
	a.expect("after it", a.reaches(o), 200, "")
	b.expect("kill", b.ask(keyA, "DELETE", o.path(), ""), 204, "")
	b.expect("of what is killed", b.ask(keyA, "GET", o.path(), ""), 404, "not found")
	c.eventually("the first hears of the end", func() bool { return a.ask(keyA, "GET", o.path(), "").status == 404 })
}

// podAgain: a pod that was killed gets its token again.
func (c *cluster) podAgain(a, _ *gateway) {
	o := a.create("sandbox")
	_, claim := c.claim(o)
	c.node.restart(text(claim, "status", "sandbox", "name"))
	c.eventually("the pod", func() bool { return a.reaches(o).status == 200 })
	a.expect("kill", a.ask(keyA, "DELETE", o.path(), ""), 204, "")
}

// conflicts: somebody else changes the claim all the time.
func (c *cluster) conflicts(a, _ *gateway) {
	o := a.create("sandbox")
	path, _ := c.claim(o)
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
				if err := c.admin.merge(path, object{"metadata": object{"annotations": object{"somebody": fmt.Sprint(n)}}}); err != nil {
					c.Error(err)
				}
			case <-stop:
				return
			}
		}
	})
	c.eventually("a conflict", func() bool {
		a.expect("timeout", a.ask(keyA, "POST", o.path()+"/timeout", `{"timeout":4321}`), 204, "")
		return slices.ContainsFunc(c.audit(), func(e event) bool { return e.Verb == "patch" && e.Response.Code == http.StatusConflict })
	})
	close(stop)
	busy.Wait()
	_, claim := c.claim(o)
	end, err := time.Parse(time.RFC3339, text(claim, "spec", "lifecycle", "shutdownTime"))
	if left := time.Until(end); err != nil || left < 4000*time.Second || left > 4321*time.Second {
		c.Errorf("it ends in %v, %v", left, err)
	}
	a.expect("kill", a.ask(keyA, "DELETE", o.path(), ""), 204, "")
}

// manyChanges: changes of one claim at the same time do not stand in each other's way.
func (c *cluster) manyChanges(a, _ *gateway) {
	o := a.create("sandbox")
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			a.expect("timeout", a.ask(keyA, "POST", o.path()+"/timeout", fmt.Sprintf(`{"timeout":%d}`, 4000+n)), 204, "")
		})
	}
	all.Wait()
	a.expect("kill", a.ask(keyA, "DELETE", o.path(), ""), 204, "")
}

// connectsEnding: who connects while the pod of a pause is still ending, and answers, gets the next one.
func (c *cluster) connectsEnding(a, b *gateway) {
	o := a.createWith(object{"templateID": "sandbox", "timeout": 3600, "autoPause": true})
	a.runs(o, "echo hello >file")
	pause := make(chan answer, 1)
	for _, how := range []struct {
		what  string
		pause func()
	}{
		{"by request", func() { go func() { pause <- b.ask(keyA, "POST", o.path()+"/pause", "") }() }},
		{"at its end", func() {
			a.expect("timeout", a.ask(keyA, "POST", o.path()+"/timeout", `{"timeout":1}`), 204, "")
			pause <- answer{status: 503, text: "connected to by somebody else meanwhile"}
		}},
	} {
		name, old := c.pod(o)
		c.node.slowly(name, true)
		how.pause()
		c.eventually("a pod that ends", func() bool { _, now := c.pod(o); return text(now, "metadata", "deletionTimestamp") != "" })
		c.eventually("a pause that is known", func() bool { return strings.Contains(a.ask(keyA, "GET", o.path(), "").text, `"state":"paused"`) })
		looked := func() (times int) {
			for _, e := range c.audit() {
				if e.Object.Resource == "sandboxes" && e.Object.Name == name && e.Response.Code == http.StatusOK {
					times++
				}
			}
			return times
		}
		before := looked()
		connected := make(chan answer, 1)
		go func() { connected <- a.ask(keyA, "POST", o.path()+"/connect", `{"timeout":600}`) }()
		c.eventually("a look at the Sandbox, of which its controller has heard", func() bool {
			box, err := c.admin.must(http.MethodGet, "/apis/agents.x-k8s.io/v1beta1/namespaces/"+team+"/sandboxes/"+name, "", nil)
			said := list(box, "status", "conditions")
			return err == nil && looked() > before && slices.ContainsFunc(said, func(o object) bool {
				return o["type"] == "Ready" && o["observedGeneration"] == at(box, "metadata", "generation")
			})
		})
		b.expect("the pause, "+how.what, <-pause, 503, "connected to by somebody else meanwhile")
		select {
		case early := <-connected:
			c.Errorf("%s: connected to what ends: %d %s", how.what, early.status, early.text)
		default:
		}
		c.node.slowly(name, false)
		a.expect("connect, "+how.what, <-connected, 201, o.EnvdAccessToken)
		if _, now := c.pod(o); text(now, "metadata", "uid") == text(old, "metadata", "uid") {
			c.Errorf("%s: it is the pod that ended", how.what)
		}
		for _, g := range []*gateway{a, b} {
			if said := g.runs(o, "cat file"); said != "hello\n" {
				c.Errorf("%s: %q", how.what, said)
			}
		}
	}
	a.expect("kill", a.ask(keyA, "DELETE", o.path(), ""), 204, "")
}

// somebodyElse: a claim is deleted by somebody else, while it runs and before it is ready.
func (c *cluster) somebodyElse(a, _ *gateway) {
	o := a.create("sandbox")
	path, _ := c.claim(o)
	_, err := c.admin.must(http.MethodDelete, path, "", nil)
	c.must(err)
	c.eventually("the end", func() bool { return a.ask(keyA, "GET", o.path(), "").status == 404 })
	a.expect("its pod", a.reaches(o), 502, "not found")
	a.expect("kill", a.ask(keyA, "DELETE", o.path(), ""), 404, "not found")

	claims := strings.TrimSuffix(path, "/"+o.SandboxID)
	got := make(chan answer, 1)
	go func() { got <- a.ask(keyA, "POST", "/v2/sandboxes", `{"templateID":"stuck"}`) }()
	c.eventually("the claim's end", func() bool {
		all, err := c.admin.all(claims)
		for _, claim := range all {
			if err == nil && text(claim, "spec", "warmPoolRef", "name") == "stuck" {
				_, _, err = c.admin.do(http.MethodDelete, claims+"/"+text(claim, "metadata", "name"), "", nil)
				return err == nil
			}
		}
		return false
	})
	a.expect("what waits for it", <-got, 409, "deleted by somebody else")
}

// end: a sandbox whose time is over is deleted by agent-sandbox.
func (c *cluster) end(a, b *gateway) {
	o := a.create("sandbox")
	a.expect("timeout", a.ask(keyA, "POST", o.path()+"/timeout", `{"timeout":1}`), 204, "")
	for _, g := range []*gateway{a, b} {
		c.eventually("the end", func() bool { return g.ask(keyA, "GET", o.path(), "").status == 404 })
	}
}

// pausesAtEnd: a sandbox whose time is over loses its pod alone, if it was made so. Whoever connects to it has its files and variables again.
func (c *cluster) pausesAtEnd(a, b *gateway) {
	o := a.createWith(object{"templateID": "sandbox", "timeout": 3600, "autoPause": true, "envVars": object{"GREETING": "hello"}})
	if said := a.runs(o, "echo $GREETING | tee file"); said != "hello\n" {
		c.Errorf("before its end: %q", said)
	}
	for range 2 {
		a.expect("timeout", a.ask(keyA, "POST", o.path()+"/timeout", `{"timeout":1}`), 204, "")
		for _, g := range []*gateway{a, b} {
			c.eventually("the pause", func() bool { return strings.Contains(g.ask(keyA, "GET", o.path(), "").text, `"state":"paused"`) })
		}
		a.expect("its pod", a.reaches(o), 502, "")
		b.expect("connect", b.ask(keyA, "POST", o.path()+"/connect", `{"timeout":600}`), 201, o.EnvdAccessToken)
		if said := b.runs(o, "echo $GREETING; cat file"); said != "hello\nhello\n" {
			c.Errorf("after its end: %q", said)
		}
	}
	b.expect("kill", b.ask(keyA, "DELETE", o.path(), ""), 204, "")
}

// neverReady: who waits in vain is told why, and nothing is left.
func (c *cluster) neverReady(a, _ *gateway) {
	a.expect("no pool", a.ask(keyA, "POST", "/v2/sandboxes", `{"templateID":"none"}`), 404, "WarmPoolNotFound")
	hasty := c.gateway("gateway-hasty", "--ready-timeout", "15s")
	hasty.expect("no node", hasty.ask(keyA, "POST", "/v2/sandboxes", `{"templateID":"stuck"}`), 504, "FailedScheduling: 0/1 nodes are available")
	c.eventually("its end", func() bool { return hasty.ask(keyA, "GET", "/v2/sandboxes", "").text == "[]" })
}

// otherTenant: where the gateway has no rights, its key gets an error, and others are served.
func (c *cluster) otherTenant(a, _ *gateway) {
	a.expect("create", a.ask(keyB, "POST", "/v2/sandboxes", `{"templateID":"sandbox"}`), 403, "the cluster refuses it")
	if s := a.status("GET", "/ready", "", nil); s != http.StatusNoContent {
		c.Errorf("ready: %d", s)
	}
}

// outage: the API server is killed. What is asked meanwhile is done when it is back, and nobody is told that something is not there or not allowed.
func (c *cluster) outage(a, b *gateway) {
	kept, killed := a.create("sandbox"), a.create("sandbox")
	c.eventually("the other replica", func() bool { return b.ask(keyA, "GET", kept.path(), "").status == 200 })
	c.finish(c.server, syscall.SIGKILL)
	a.expect("the pod, meanwhile", a.reaches(kept), 200, "")
	b.expect("the list, meanwhile", b.ask(keyA, "GET", "/v2/sandboxes", ""), 200, kept.SandboxID)

	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	insist := func(what string, status int, f func() answer) func() {
		return func() {
			for ctx.Err() == nil {
				switch a := f(); a.status {
				case status:
					return
				case http.StatusServiceUnavailable: // after half a minute: try again
				default:
					c.Errorf("%s: %d %s", what, a.status, a.text)
					return
				}
			}
		}
	}
	all.Go(insist("timeout", 204, func() answer { return a.ask(keyA, "POST", kept.path()+"/timeout", `{"timeout":5555}`) }))
	all.Go(insist("kill", 204, func() answer { return b.ask(keyA, "DELETE", killed.path(), "") }))
	var made box
	all.Go(insist("create", 201, func() answer {
		got := a.ask(keyA, "POST", "/v2/sandboxes", `{"templateID":"sandbox"}`)
		_ = json.Unmarshal([]byte(got.text), &made)
		return got
	}))
	stop := make(chan struct{})
	for range 4 { // at many moments of its start
		again := insist("timeout, again and again", 204, func() answer { return b.ask(keyA, "POST", kept.path()+"/timeout", `{"timeout":5556}`) })
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-ctx.Done():
					return
				default:
					again()
				}
			}
		})
	}
	c.serve()
	close(stop)
	all.Wait()
	a.expect("what was made", a.reaches(made), 200, "")
	for _, o := range []box{kept, made} {
		a.expect("kill", a.ask(keyA, "DELETE", o.path(), ""), 204, "")
	}
	a.expect("what was killed", a.ask(keyA, "GET", killed.path(), ""), 404, "not found")
}

// tooOld: a replica that has slept through changes, a compaction and a restart begins with a list.
func (c *cluster) tooOld(a, b *gateway) {
	kept, killed := a.create("sandbox"), a.create("sandbox")
	c.eventually("the other replica", func() bool { return b.ask(keyA, "GET", killed.path(), "").status == 200 })
	c.must(b.process.Process.Signal(syscall.SIGSTOP))
	a.expect("kill", a.ask(keyA, "DELETE", killed.path(), ""), 204, "")
	for n := range 5 { // versions of which the claims' watch does not tell
		c.must(c.admin.apply(object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": fmt.Sprint("m", n)}}, team, ""))
	}
	c.compact()
	c.finish(c.server, syscall.SIGKILL)
	c.serve()
	c.must(b.process.Process.Signal(syscall.SIGCONT))
	c.eventually("a list in place of the watch", func() bool { return b.process.says("the watch is too old") })
	c.eventually("what has happened", func() bool {
		all := b.ask(keyA, "GET", "/v2/sandboxes", "").text
		return strings.Contains(all, kept.SandboxID) && !strings.Contains(all, killed.SandboxID)
	})
	made := a.create("sandbox")
	c.eventually("what happens", func() bool { return strings.Contains(b.ask(keyA, "GET", "/v2/sandboxes", "").text, made.SandboxID) })
	for _, o := range []box{kept, made} {
		b.expect("kill", b.ask(keyA, "DELETE", o.path(), ""), 204, "")
	}
}

// many: a replica that begins when there are more claims than a page of the server's has knows all of them, and tells of them page by page.
func (c *cluster) many(_, _ *gateway) {
	const number = 520
	claims := "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/" + team + "/sandboxclaims"
	names := make(chan string)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for name := range names {
				if _, err := c.admin.must(http.MethodPost, claims, "application/json", object{
					"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim", "metadata": object{"name": name, "labels": object{"sandbox-gateway/managed": "true"}},
					"spec": object{"warmPoolRef": object{"name": "none"}},
				}); err != nil {
					c.Error(err)
				}
			}
		})
	}
	for n := range number {
		names <- fmt.Sprintf("%020d", n)
	}
	close(names)
	all.Wait()
	g := c.gateway("gateway-many")
	seen := map[string]bool{}
	for next := ""; ; {
		r, err := http.NewRequestWithContext(c.Context(), http.MethodGet, g.url+"/v2/sandboxes?nextToken="+next, nil)
		c.must(err)
		r.Header.Set("X-Api-Key", keyA)
		a, err := http.DefaultClient.Do(r)
		c.must(err)
		var page []box
		err = json.NewDecoder(a.Body).Decode(&page)
		_ = a.Body.Close()
		c.must(err)
		for _, o := range page {
			seen[o.SandboxID] = true
		}
		if next = a.Header.Get("X-Next-Token"); next == "" {
			break
		}
	}
	if len(seen) != number {
		c.Errorf("%d sandboxes", len(seen))
	}
	_, err := c.admin.must(http.MethodDelete, claims+"?labelSelector=sandbox-gateway%2Fmanaged", "", nil)
	c.must(err)
	c.eventually("their end", func() bool { return g.ask(keyA, "GET", "/v2/sandboxes", "").text == "[]" })
}

// compact has etcd forget what was.
func (c *cluster) compact() {
	c.Helper()
	etcd := func(what string, body any) (answer object) {
		b, err := json.Marshal(body)
		c.must(err)
		a, err := http.Post(etcdURL+"/v3/kv/"+what, "application/json", bytes.NewReader(b))
		c.must(err)
		defer a.Body.Close()
		c.must(json.NewDecoder(a.Body).Decode(&answer))
		if a.StatusCode != http.StatusOK {
			c.Fatalf("etcd: %s: %v", what, answer)
		}
		return answer
	}
	etcd("compaction", object{"revision": text(etcd("range", object{"key": "AA=="}), "header", "revision"), "physical": true})
}

// nothingLeft: with the last claim go its Sandbox, its pod and its volumes; the warm ones stay.
func (c *cluster) nothingLeft() {
	c.eventually("the end of all but the warm ones", func() bool {
		sandboxes, err := c.admin.all("/apis/agents.x-k8s.io/v1beta1/namespaces/" + team + "/sandboxes")
		pods, err2 := c.admin.all("/api/v1/namespaces/" + team + "/pods")
		volumes, err3 := c.admin.all("/api/v1/namespaces/" + team + "/persistentvolumeclaims")
		claims, err4 := c.admin.all("/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/" + team + "/sandboxclaims")
		return err == nil && err2 == nil && err3 == nil && err4 == nil && len(claims) == 0 && len(sandboxes) == 2 && len(pods) == 2 && len(volumes) == 4
	})
}

// event is what the API server's audit says of a request of the gateway's.
type event struct {
	Verb   string `json:"verb"`
	Object struct {
		Resource  string `json:"resource"`
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
}

// audit is what the gateway has asked for.
func (c *cluster) audit() (all []event) {
	c.Helper()
	b, err := os.ReadFile(c.dir + "/audit.log")
	c.must(err)
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil { // the last one may be written just now
			all = append(all, e)
		}
	}
	return all
}

// rights: what the gateway was allowed to ask for is what packaging/kubernetes/gateway.yaml says, and all of it. It was refused nothing but that, while the server started.
func (c *cluster) rights() {
	used, refused, given := map[string]bool{}, map[string]int{}, map[string]bool{}
	for _, e := range c.audit() {
		what := e.Object.Resource + " " + e.Verb
		switch {
		case e.Object.Namespace != team: // another tenant's, or whether the server is ready
		case e.Annotations["authorization.k8s.io/decision"] == "allow":
			used[what] = true
		default:
			refused[what]++
		}
	}
	c.Logf("refused while the server started: %v", refused)
	for what := range refused {
		if !used[what] {
			c.Errorf("refused: %s", what)
		}
	}
	for _, o := range objects(c.T, c.packaging("gateway.yaml")) {
		for _, rule := range list(o, "rules") {
			resources, _ := rule["resources"].([]any)
			verbs, _ := rule["verbs"].([]any)
			for _, r := range resources {
				for _, v := range verbs {
					given[fmt.Sprint(r, " ", v)] = true
				}
			}
		}
	}
	if !maps.Equal(used, given) {
		c.Errorf("used: %v\ngiven: %v", slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(given)))
	}
}
