package pod

import (
	"bufio"
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

// isolations are those that can be in a pod's network namespace.
func isolations(t *testing.T, f func(t *testing.T, isolation string)) {
	for _, isolation := range []string{"jail", "landlock"} {
		t.Run(isolation, func(t *testing.T) { f(t, isolation) })
	}
}

// check compares what the probe said, a line for each thing that was tried.
func check(t *testing.T, said string, want map[string]string) {
	t.Helper()
	lines := strings.Split(said, "\n")
	for what, w := range want {
		if !slices.Contains(lines, what+": "+w) {
			t.Errorf("%s: not %q", what, w)
		}
	}
	if t.Failed() {
		t.Log(said)
	}
}

func keys(m map[string]string) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// TestPodReaches: without rules a session in a pod reaches what the pod does, by TCP, UDP and names, and what programs inside listen at; not the pod's own services, nor the metadata service,
// nor abstract names of others, and there are no other protocols.
func TestPodReaches(t *testing.T) {
	isolations(t, func(t *testing.T, isolation string) {
		s := newSession(t)
		want := map[string]string{
			"tcp/" + peer + ":80": "ok, hello", "tcp/[" + peer6 + "]:80": "ok, hello", "tcp/[::ffff:" + peer + "]:80": "ok, hello", "blocking/" + peer + ":80": "ok, hello", "many/" + peer + ":80": "ok",
			"tcp/" + peer + ":82": "ECONNREFUSED", "blocking/" + peer + ":82": "ECONNREFUSED",
			"udp/" + peer + ":7777": "ok, ping", "udpsend/" + peer + ":7777": "ok, ping ping message", "name/name.test": "ok, " + peer, "own/": "ok", "ownudp/": "ok, ping", "netlink/": "ok", "passed/": "ok, through",
			"tcp/127.0.0.1:4040": "EACCES", "tcp/[::1]:4040": "EACCES", "tcp/0.0.0.0:4040": "EACCES", "tcp/[::ffff:127.0.0.1]:4040": "EACCES", "tcp/" + self + ":4041": "EACCES", "tcp/127.0.0.1:5432": "EACCES",
			"tcp/" + metadata + ":80": "EACCES", "blocking/" + metadata + ":80": "EACCES", "fast/" + metadata + ":80": "ENOTSUP", "options/": "EPERM", "race/": "ok",
			"socket/2,1,262": "EPROTONOSUPPORT", "socket/2,5,0": "ESOCKTNOSUPPORT", "socket/2,3,1": "ESOCKTNOSUPPORT", "socket/17,3,0": "EAFNOSUPPORT", "socket/40,1,0": "EAFNOSUPPORT",
		}
		if isolation == "jail" {
			want["unix/own.sock"] = "ok"
			want["abstract/pod-test"] = "EPERM" // Landlock
		} else {
			want["abstract/pod-test"] = "EAFNOSUPPORT"
		}
		said, status := inPod(t, s, append([]string{"run", "--isolation", isolation, "--network", "pod", "--", "./probe"}, keys(want)...)...)
		if status != 0 {
			t.Errorf("exit status %d", status)
		}
		check(t, said, want)
	})
}

// TestPodRules: rules are about addresses, of TCP and of each datagram; DNS servers and what programs inside listen at need none.
func TestPodRules(t *testing.T) {
	isolations(t, func(t *testing.T, isolation string) {
		s := newSession(t)
		want := map[string]string{
			"tcp/" + peer + ":80": "ok, hello", "blocking/" + peer + ":80": "ok, hello", "many/" + peer + ":80": "ok", "tcp/" + peer + ":81": "EACCES", "tcp/[" + peer6 + "]:80": "EACCES", "udp/" + peer + ":7777": "EACCES", "udpsend/" + peer + ":7777": "EACCES",
			"udpsend/" + metadata + ":53": "EACCES", "name/name.test": "ok, " + peer, "own/": "ok", "ownudp/": "ok, ping", "netlink/": "ok", "passed/": "ok, through", "closed/": "EPIPE",
			"tcp/127.0.0.1:5432": "ok, database", "tcp/127.0.0.1:4040": "EACCES", "tcp/" + metadata + ":80": "EACCES", "race/": "ok",
		}
		if isolation == "jail" {
			want["unix/own.sock"] = "ok"
			want["abstract/pod-test"] = "ECONNREFUSED"
		}
		said, status := inPod(t, s, append([]string{"run", "--isolation", isolation, "--network", "pod", "--allow-host", peer + ":80", "--allow-host", "127.0.0.1:5432", "--", "./probe"}, keys(want)...)...)
		if status != 0 {
			t.Errorf("exit status %d", status)
		}
		check(t, said, want)
		if !strings.Contains(said, "--allow-host "+peer+":81") {
			t.Errorf("it is not said what would allow it:\n%s", said)
		}
		denied := map[string]string{"tcp/" + peer + ":81": "EACCES", "tcp/" + peer + ":80": "ok, hello", "udp/" + peer + ":7777": "ok, ping"}
		said, _ = inPod(t, s, append([]string{"run", "--isolation", isolation, "--network", "pod", "--deny-host", peer + ":81", "--", "./probe"}, keys(denied)...)...)
		check(t, said, denied)
	})
}

// TestPodPlainContainer: where the container forbids to copy descriptors, sockets for TCP are made outside, with the same walls; rules are refused, and it is said why.
func TestPodPlainContainer(t *testing.T) {
	isolations(t, func(t *testing.T, isolation string) {
		s := newSession(t)
		s.Env = append(s.Env, plainEnv+"=1")
		want := map[string]string{
			"tcp/" + peer + ":80": "ok, hello", "tcp/[" + peer6 + "]:80": "ok, hello", "blocking/" + peer + ":80": "ok, hello", "many/" + peer + ":80": "ok", "udp/" + peer + ":7777": "ok, ping", "name/name.test": "ok, " + peer,
			"own/": "ok", "tcp/127.0.0.1:4040": "EACCES", "tcp/" + self + ":4041": "EACCES", "tcp/" + metadata + ":80": "EACCES", "blocking/" + metadata + ":80": "EACCES", "race/": "ok",
		}
		said, status := inPod(t, s, append([]string{"run", "--isolation", isolation, "--network", "pod", "--", "./probe"}, keys(want)...)...)
		if status != 0 {
			t.Errorf("exit status %d", status)
		}
		check(t, said, want)
		if said, status := inPod(t, s, "run", "--isolation", isolation, "--network", "pod", "--allow-host", peer, "--", "true"); status != 125 || !strings.Contains(said, "pidfd_getfd") {
			t.Errorf("exit status %d: %s", status, said)
		}
	})
}

// TestPodRefusals: what cannot be kept is refused before anything runs.
func TestPodRefusals(t *testing.T) {
	s := newSession(t)
	for want, args := range map[string][]string{
		"NetworkPolicy":                   {"--network", "pod", "--allow-host", "pypi.org"},
		"name an address or a range":      {"--network", "pod-ask", "--deny-host", "*.example.com"},
		"with FUSE nobody answers":        {"--network", "pod", "--bridge", "fuse"},
		"has a network card of its own":   {"--network", "pod", "--isolation", "vm"},
		"nothing is added to them":        {"--network", "pod", "--inject", "a.example: A: $HOME"},
		"needs --isolation jail, or land": {"--network", "pod-ask", "--isolation", "none"},
	} {
		r := s.Do(t, append(append([]string{"run"}, args...), "--", "true")...)
		if r.Code != 2 || !strings.Contains(r.Stderr, want) {
			t.Errorf("%v: exit status %d: %s", args, r.Code, r.Stderr)
		}
	}
}

// TestPodAsks: with pod-ask a connection waits until somebody has decided, and the rest of the session does not.
func TestPodAsks(t *testing.T) {
	isolations(t, func(t *testing.T, isolation string) {
		s := newSession(t)
		cmd := s.Command(t.Context(), "run", "--isolation", isolation, "--network", "pod-ask", "--safeguard-timeout", "5m", "--", "sh", "-c",
			"./probe tcp/"+peer+":80 & touch new; echo not held; wait; exec ./probe tcp/"+peer+":81 own/")
		place(cmd)
		var notes bytes.Buffer
		cmd.Stderr = &notes
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() || lines.Text() != "not held" {
			t.Fatalf("%q, %v", lines.Text(), lines.Err())
		}
		decide(t, s, "approve", peer+":80")
		if !lines.Scan() || lines.Text() != "tcp/"+peer+":80: ok, hello" {
			t.Errorf("%q, %v", lines.Text(), lines.Err())
		}
		decide(t, s, "deny", peer+":81")
		var said []string
		for lines.Scan() {
			said = append(said, lines.Text())
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, &notes)
		}
		check(t, strings.Join(said, "\n"), map[string]string{"tcp/" + peer + ":81": "EACCES", "own/": "ok"})
	})
}

// decide waits for the question about a destination, and answers it.
func decide(t *testing.T, s *drive.Sandbox, how, about string) {
	t.Helper()
	for {
		r := s.Do(t, "pending", "--json")
		var waiting []struct {
			ID      string `json:"safeguard_id"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal([]byte(r.Stdout), &waiting); r.Code == 0 && err != nil {
			t.Fatalf("%v: %s", err, r.Stdout)
		}
		for _, w := range waiting {
			if strings.Contains(w.Message, about) {
				s.Must(t, how, w.ID)
				return
			}
		}
	}
}
