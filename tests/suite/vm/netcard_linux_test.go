package vm

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor/network"
	"github.com/codeagent/sandbox/hypervisor/network/inject"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/hypervisor/qemu"
)

const machineSecret = "sk-machine-4711-0123456789"

// cardLab is a machine that publishes a port, has IPv6, and whose requests to one host get a
// header.
type cardLab struct {
	*live
	published string // the address on the host
	loopback6 string // the port of a server at ::1
}

// serveAt serves pages that say what was asked for, at an address.
func serveAt(t *testing.T, address string) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	check(t, err)
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "served %s\n", r.Host)
	})}}
	s.Start()
	t.Cleanup(s.Close)
	_, port, err = net.SplitHostPort(l.Addr().String())
	check(t, err)
	return port
}

func startCardLab(t *testing.T) *cardLab {
	six := serveAt(t, "[::1]:0")
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "known %t by %s\n", r.Header.Get("Authorization") == "Bearer "+machineSecret, r.Host)
	}))
	t.Cleanup(secure.Close)
	t.Setenv("SANDBOX_TEST_KEY", machineSecret)
	rule, err := inject.Parse("example.com: Authorization: Bearer $SANDBOX_TEST_KEY")
	check(t, err)
	rule, err = rule.Resolve(os.Getenv)
	check(t, err)
	injector, err := inject.New([]inject.Rule{rule}, control.TrustFile, nil)
	check(t, err)
	injector.Roots = x509.NewCertPool()
	injector.Roots.AddCert(secure.Certificate())
	free, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	published := free.Addr().String()
	check(t, free.Close())
	l := &cardLab{published: published, loopback6: six}
	l.live = startLive(t, func(cfg *api.Config, o *qemu.Options) {
		cfg.Network = policy.Network{
			Mode: policy.Allowlist, Allow: []string{"[::1]:" + six, "six.test:80", "example.com:443"}, Publish: []string{published + ":8000"},
		}
		o.Network = network.Options{
			Resolver: names{"6.six.test": "2001:db8::5", "example.com": "198.51.100.6"}, HasIPv6: func() bool { return true }, Intercept: injector,
			Dial: func(ctx context.Context, kind, address string) (net.Conn, error) {
				switch {
				case strings.HasPrefix(address, "[2001:db8::5]:"):
					address = "[::1]:" + six
				case strings.HasPrefix(address, "198.51.100.6:"):
					address = secure.Listener.Addr().String()
				}
				return new(net.Dialer).DialContext(ctx, kind, address)
			},
		}
	})
	return l
}

// TestMachineCard: what the jail's network has, a machine's has, too. One machine.
func TestMachineCard(t *testing.T) {
	l := startCardLab(t)
	for _, s := range []struct {
		name string
		test func(*testing.T, *cardLab)
	}{{"publish", cardPublish}, {"ipv6", cardIPv6}, {"inject", cardInject}} {
		t.Run(s.name, func(t *testing.T) {
			l.t = t
			s.test(t, l)
		})
	}
	l.t = t
}

// cardPublish: a server inside that listens on the loopback alone is reached from the host, by
// many at once, with more than fits into the channel's windows.
func cardPublish(t *testing.T, l *cardLab) {
	large := strings.Repeat("\xffpage\n", 1<<18)
	check(t, os.WriteFile(filepath.Join(l.dir, "large"), []byte(large), 0o644))
	get := func() (string, error) {
		r, err := http.Get("http://" + l.published + "/large")
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		return string(text), err
	}
	if text, err := get(); err == nil {
		t.Errorf("nobody listens, and %d bytes came", len(text))
	}
	l.sh("httpd -p 127.0.0.1:8000 -h " + l.dir)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if text, err := get(); err != nil || text != large {
				t.Errorf("%d bytes, %v", len(text), err)
			}
		})
	}
	wait.Wait()
	l.sh("killall httpd")
	if text, err := get(); err == nil {
		t.Errorf("nobody listens any more, and %d bytes came", len(text))
	}
}

// cardIPv6: the host's ::1 by the gateway's address, where a rule names it; a name that has
// nothing but an IPv6 address; and what no rule names is refused.
func cardIPv6(t *testing.T, l *cardLab) {
	for url, want := range map[string]string{
		"http://[fd7a:5bc2:91e4:2::2]:" + l.loopback6: "served [fd7a:5bc2:91e4:2::2]:" + l.loopback6,
		"http://six.test":                         "served six.test",
		"http://[2001:db8::6]":                    "refused",
		"http://[fd7a:5bc2:91e4:2::2]:1":          "refused",
		"http://[::ffff:10.0.2.2]:" + l.loopback6: "refused",
	} {
		if got := strings.TrimSpace(l.sh("wget -q -O - '" + url + "' 2>/dev/null || echo refused")); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
	// One address of the card's own making would ask who has it.
	if got := strings.Fields(l.sh("grep -c eth0 /proc/net/if_inet6; grep -c '^fd7a5bc291e4000200000000000000[0-9a-f]* .*eth0' /proc/net/if_inet6")); len(got) != 2 || got[0] != "1" || got[1] != "1" {
		t.Errorf("addresses of the card, and ours among them: %q", got)
	}
}

// cardInject: the key is added outside, and is nowhere inside. A program of the guest's trusts the
// session's authority; busybox's programs verify nobody.
func cardInject(t *testing.T, l *cardLab) {
	buildInside(t, filepath.Join(l.dir, "inside"))
	out := l.sh("URL=https://example.com/ ./inside -test.v -test.run '^TestFetch$' 2>&1")
	if !strings.Contains(out, "answer: known true by example.com") {
		t.Errorf("%s", out)
	}
	if got := l.sh("grep -c BEGIN $SSL_CERT_FILE; echo $SANDBOX_TEST_KEY"); got != "1\n"+inject.Placeholder+"\n" {
		t.Errorf("the certificates, and the key: %q", got)
	}
}
