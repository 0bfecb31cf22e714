package vm

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

// webServer says which name it was asked for.
func webServer(t *testing.T) (port string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "served %s\n", r.Host)
	}))
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	check(t, err)
	return port
}

// The program, as people use it: what is named is reached, what is not is
// refused, and without a word there is no network.
func TestNetworkFlags(t *testing.T) {
	s := sandbox(t)
	named, unnamed := webServer(t), webServer(t)
	script := `wget -q -O - http://10.0.2.2:` + named + ` && wget -q -O - http://host.sandbox.internal:` + named + `
wget -q -O - http://10.0.2.2:` + unnamed + `; echo "unnamed $?"
wget -q -O - http://secret.example.com; echo "name $?"
ls /sys/class/net | xargs`
	r := s.Do(t, inMachine("--network", "allowlist", "--allow-host", "tcp/127.0.0.1:"+named, "--", "sh", "-c", script)...)
	if want := "served 10.0.2.2:" + named + "\nserved host.sandbox.internal:" + named + "\nunnamed 1\nname 1\neth0 lo\n"; r.Code != 0 || r.Stdout != want {
		t.Errorf("exit status %d, stdout %q, want %q, stderr %q", r.Code, r.Stdout, want, r.Stderr)
	}
	for _, want := range []string{
		"sandbox: network: tcp 127.0.0.1:" + unnamed + " was refused: protected: loopback; --allow-host 127.0.0.1:" + unnamed + " would allow it\n",
		"sandbox: network: the name secret.example.com was refused: not in the allow list; --allow-host secret.example.com would allow it\n",
	} {
		if strings.Count(r.Stderr, want) != 1 {
			t.Errorf("stderr %q, want %q", r.Stderr, want)
		}
	}
	r = s.Must(t, inMachine("--", "sh", "-c", "ls /sys/class/net; wget -q -O - http://10.0.2.2:"+named+" || echo none")...)
	if r.Stdout != "lo\nnone\n" {
		t.Errorf("without a policy: stdout %q", r.Stdout)
	}
	s.CheckResidue(t)
}

// What cannot be had, or makes no sense, is said before anything starts.
func TestNetworkMisuse(t *testing.T) {
	s := drive.New(t, fill)
	for want, args := range map[string][]string{
		"add --network allowlist, or --network ask":        {"--allow-host", "example.com"},
		"leaves commands the host's network":               {"--isolation", "none", "--network", "disabled"},
		"--allow-host: there is no network; add --network": {"--isolation", "vm", "--allow-host", "example.com"},
		`"10.0.0.300" is no address, range or domain`:      {"--isolation", "vm", "--network", "allowlist", "--allow-host", "10.0.0.300"},
		`"none" is not one of pod, pod-ask, open, ask,`:    {"--network", "none"},
	} {
		r := s.Do(t, append(append([]string{"run"}, args...), "--", "true")...)
		if r.Code != 2 || !strings.Contains(r.Stderr, want) {
			t.Errorf("%q: exit status %d, stderr %q, want %q", args, r.Code, r.Stderr, want)
		}
	}
}
