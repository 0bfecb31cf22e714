package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

var updateManifests = flag.Bool("update", false, "write packaging/kubernetes/seccomp.yaml anew")

// object is what a manifest describes.
type object = map[string]any

// at returns what lies at a path of names in an object, or nil.
func at(o any, names ...string) any {
	for _, name := range names {
		m, ok := o.(object)
		if !ok {
			return nil
		}
		o = m[name]
	}
	return o
}

// manifests are the objects of packaging/kubernetes, by file.
func manifests(t *testing.T) map[string][]object {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(drive.Module(t), "packaging/kubernetes/*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d manifests, %v", len(files), err)
	}
	all := make(map[string][]object)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for d := yaml.NewDecoder(bytes.NewReader(b)); ; {
			var o object
			err := d.Decode(&o)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all[filepath.Base(file)] = append(all[filepath.Base(file)], o)
		}
	}
	return all
}

// podOf is the specification of the pods that an object makes, or nil.
func podOf(o object) object {
	spec, _ := map[string]any{
		"Pod": at(o, "spec"), "SandboxTemplate": at(o, "spec", "podTemplate", "spec"), "DaemonSet": at(o, "spec", "template", "spec"),
		"Deployment": at(o, "spec", "template", "spec"),
	}[at(o, "kind").(string)].(object)
	return spec
}

func list(v any) (out []object) {
	items, _ := v.([]any)
	for _, i := range items {
		out = append(out, i.(object))
	}
	return out
}

// TestManifests: each manifest is one that a cluster could read: kinds and versions, names that refer to something, and a process that this program knows, with flags that it has.
func TestManifests(t *testing.T) {
	versions := map[string]string{
		"Pod": "v1", "ConfigMap": "v1", "DaemonSet": "apps/v1", "NetworkPolicy": "networking.k8s.io/v1",
		"Namespace": "v1", "ServiceAccount": "v1", "Service": "v1", "Deployment": "apps/v1", "PodDisruptionBudget": "policy/v1",
		"Role": "rbac.authorization.k8s.io/v1", "RoleBinding": "rbac.authorization.k8s.io/v1",
		"SandboxTemplate": "extensions.agents.x-k8s.io/v1beta1", "SandboxWarmPool": "extensions.agents.x-k8s.io/v1beta1", "SandboxClaim": "extensions.agents.x-k8s.io/v1beta1",
	}
	served := 0
	for file, objects := range manifests(t) {
		for _, o := range objects {
			kind, _ := at(o, "kind").(string)
			if v, ok := versions[kind]; !ok || at(o, "apiVersion") != v || at(o, "metadata", "name") == nil {
				t.Errorf("%s: %v %v %v", file, at(o, "apiVersion"), kind, at(o, "metadata", "name"))
				continue
			}
			pod := podOf(o)
			for _, c := range slices.Concat(list(at(pod, "initContainers")), list(at(pod, "containers"))) {
				mounted(t, file, o, pod, c)
				if runsServe(t, file, c) {
					served++
					hardened(t, file, pod, c)
					reached(t, file, o, c)
				}
			}
		}
	}
	if served != 3 {
		t.Errorf("%d containers serve", served)
	}
	pool := manifests(t)["warmpool.yaml"]
	if len(pool) != 3 || at(pool[1], "spec", "sandboxTemplateRef", "name") != at(pool[0], "metadata", "name") || at(pool[2], "spec", "warmPoolRef", "name") != at(pool[1], "metadata", "name") {
		t.Error("the claim does not lead to the template")
	}
}

// mounted checks that a container mounts what there is.
func mounted(t *testing.T, file string, o, pod, c object) {
	t.Helper()
	var volumes []any
	for _, v := range list(at(pod, "volumes")) {
		volumes = append(volumes, v["name"])
	}
	for _, v := range list(at(o, "spec", "volumeClaimTemplates")) {
		volumes = append(volumes, at(v, "metadata", "name"))
	}
	for _, m := range list(c["volumeMounts"]) {
		if !slices.Contains(volumes, m["name"]) {
			t.Errorf("%s: there is no volume %v", file, m["name"])
		}
	}
}

// runsServe tells whether a container runs 'sandbox serve', and checks its flags, or the gateway's.
func runsServe(t *testing.T, file string, c object) bool {
	t.Helper()
	var words []string
	command, _ := c["command"].([]any)
	for _, w := range command {
		words = append(words, w.(string))
	}
	if len(words) == 0 || filepath.Base(words[0]) != "sandbox" {
		return false
	}
	cmd, rest, err := (&app{}).rootCommand().Find(words[1:])
	if err == nil && cmd.Name() == "gateway" {
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %q: %v", file, rest, err)
		}
		return false
	}
	if err != nil || cmd.Name() != "serve" {
		t.Errorf("%s: %q: %v", file, words, err)
		return true
	}
	for _, want := range []string{"--protocol=e2b", "--role=envd", "--network=pod", "--working-dir=/work", "--listen=0.0.0.0:49983", "--runtime-listen=0.0.0.0:8888"} {
		if !slices.Contains(rest, want) {
			t.Errorf("%s: no %s in %q", file, want, rest)
		}
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%s: %q: %v", file, rest, err)
	}
	return true
}

// reached checks the ports of a container that serves, and who reaches the one that needs no token: nobody where the manifest has no policy of its own that says so.
func reached(t *testing.T, file string, o, c object) {
	t.Helper()
	var ports []any
	for _, p := range list(c["ports"]) {
		ports = append(ports, p["containerPort"])
	}
	if !slices.Equal(ports, []any{49983, 8888}) {
		t.Errorf("%s: ports %v", file, ports)
	}
	let := slices.ContainsFunc(list(at(o, "spec", "networkPolicy", "ingress")), func(in object) bool {
		ports, from := list(in["ports"]), list(in["from"])
		return len(ports) == 1 && ports[0]["port"] == 8888 && len(from) == 1 && at(from[0], "podSelector", "matchLabels", "app") == "sandbox-router" &&
			at(from[0], "namespaceSelector", "matchLabels", "kubernetes.io/metadata.name") == "agent-sandbox-system"
	})
	if open := slices.Contains(c["command"].([]any), any("--runtime-open")); open != let {
		t.Errorf("%s: --runtime-open %v, and its policy lets agent-sandbox's router in: %v", file, open, let)
	}
}

// hardened checks what a pod with a sandbox must have: no rights, a profile, probes, time to close steps, and a folder and a state that last.
func hardened(t *testing.T, file string, pod, c object) {
	t.Helper()
	for name, ok := range map[string]bool{
		"hostUsers": at(pod, "hostUsers") == false, "token": at(pod, "automountServiceAccountToken") == false, "grace": at(pod, "terminationGracePeriodSeconds") == 60,
		"user": at(pod, "securityContext", "runAsNonRoot") == true, "profile": at(pod, "securityContext", "seccompProfile", "localhostProfile") == "sandbox.json",
		"escalation": at(c, "securityContext", "allowPrivilegeEscalation") == false, "proc": at(c, "securityContext", "procMount") == "Unmasked",
		"liveness": at(c, "livenessProbe", "httpGet", "path") == "/health", "readiness": at(c, "readinessProbe", "httpGet", "path") == "/health",
		"state": slices.ContainsFunc(list(c["env"]), func(e object) bool { return e["name"] == "XDG_STATE_HOME" && e["value"] == "/state" }),
		"mounts": slices.ContainsFunc(list(c["volumeMounts"]), func(m object) bool { return m["mountPath"] == "/work" }) &&
			slices.ContainsFunc(list(c["volumeMounts"]), func(m object) bool { return m["mountPath"] == "/state" }),
	} {
		if !ok {
			t.Errorf("%s: %s is not as it must be", file, name)
		}
	}
}

// TestManifestsPolicies: each policy lets the gateway of gateway.yaml in, from its namespace, and is one for pods that there are.
func TestManifestsPolicies(t *testing.T) {
	var gateway, gatewaySpace object
	var sandboxes []object // labels of their pods
	policies := map[string]object{}
	for file, objects := range manifests(t) {
		for _, o := range objects {
			switch o["kind"] {
			case "Deployment":
				gateway, _ = at(o, "spec", "template", "metadata", "labels").(object)
				gatewaySpace = object{"kubernetes.io/metadata.name": at(o, "metadata", "namespace")}
			case "Pod":
				labels, _ := at(o, "metadata", "labels").(object)
				sandboxes = append(sandboxes, labels)
			case "SandboxTemplate":
				labels, _ := at(o, "spec", "podTemplate", "metadata", "labels").(object)
				sandboxes = append(sandboxes, labels)
				policies[file+" template"], _ = at(o, "spec", "networkPolicy").(object)
			case "NetworkPolicy":
				policies[file+" policy"], _ = o["spec"].(object)
			}
		}
	}
	if len(policies) != 3 || len(sandboxes) != 3 {
		t.Errorf("%d policies, %d kinds of pods", len(policies), len(sandboxes))
	}
	for name, p := range policies {
		let := false
		for _, rule := range list(p["ingress"]) {
			port := slices.ContainsFunc(list(rule["ports"]), func(o object) bool { return o["port"] == 49983 })
			let = let || port && slices.ContainsFunc(list(rule["from"]), func(from object) bool {
				return selects(from["namespaceSelector"], gatewaySpace) && selects(from["podSelector"], gateway)
			})
		}
		if !let {
			t.Errorf("%s does not let the gateway in", name)
		}
		for _, labels := range sandboxes {
			if of := p["podSelector"]; of != nil && !selects(of, labels) { // a template's is for its own pods
				t.Errorf("%s is not for pods with %v", name, labels)
			}
		}
	}
}

// selects tells whether a selector that there is has these labels.
func selects(selector any, labels object) bool {
	want, _ := at(selector, "matchLabels").(object)
	for name, value := range want {
		if labels[name] != value {
			return false
		}
	}
	return len(want) > 0
}

// TestManifestsProfile: the nodes get the profile that is tested.
func TestManifestsProfile(t *testing.T) {
	packaging := filepath.Join(drive.Module(t), "packaging")
	profile, err := os.ReadFile(filepath.Join(packaging, "seccomp.json"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(packaging, "kubernetes/seccomp.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "  sandbox.json: |\n", "---\n"
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the profile", file)
	}
	var want strings.Builder
	want.WriteString(before + begin)
	for line := range strings.Lines(string(profile)) {
		want.WriteString("    " + line)
	}
	want.WriteString(end + after)
	if want.String() != string(text) {
		if !*updateManifests {
			t.Fatal("it is not current: go test ./cmd/sandbox -run Manifests -update")
		}
		if err := os.WriteFile(file, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	config := manifests(t)["seccomp.yaml"][0]
	if got := at(config, "data", "sandbox.json"); got != string(profile) {
		t.Error("YAML reads another profile")
	}
}
