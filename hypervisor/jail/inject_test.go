//go:build linux

package jail_test

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/hypervisor/network"
	"github.com/codeagent/sandbox/hypervisor/network/inject"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestJailInjectsSecrets: a program inside uses a service with a key that is nowhere
// inside: not in an environment, in a process, in a file of the trusted certificates, or
// in the log.
func TestJailInjectsSecrets(t *testing.T) {
	require.TUN(t)
	const bundle, secret = "/etc/ssl/certs/ca-certificates.crt", "sk-jail-4711-0123456789"
	trusted, err := os.ReadFile(bundle)
	if err != nil {
		t.Skipf("needs %s, of the package ca-certificates: %v", bundle, err)
	}
	t.Setenv("SANDBOX_TEST_KEY", secret)
	rule, err := inject.Parse("example.com: Authorization: Bearer $SANDBOX_TEST_KEY")
	if err == nil {
		rule, err = rule.Resolve(os.Getenv)
	}
	if err != nil {
		t.Fatal(err)
	}
	injector, err := inject.New([]inject.Rule{rule}, bundle, trusted)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "known %t by %s", r.Header.Get("Authorization") == "Bearer "+secret, r.Host)
	}))
	t.Cleanup(web.Close)
	injector.Roots = x509.NewCertPool()
	injector.Roots.AddCert(web.Certificate())

	engine, err := policy.New(policy.Options{Network: policy.Network{Mode: policy.Allowlist, Allow: []string{"example.com", "other.test", "sub.example.com"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	l := &netLab{python: systemPython(t), web: web}
	rt := jail.New(jail.Options{GuestBinary: guestBinary, Umask: 0o022, Network: network.Options{
		Resolver: netNames{"example.com": "198.51.100.5", "other.test": "198.51.100.5", "sub.example.com": "198.51.100.6"}, Dial: l.dial, Intercept: injector,
	}})
	l.jailed = startOn(t, rt, func(c *hypervisor.Config) { c.Network = engine })

	const client = `
import os,ssl,urllib.request
def get(name):
    ctx = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
    r = urllib.request.Request("https://"+name+"/", headers={"Authorization": "Bearer "+os.environ["SANDBOX_TEST_KEY"]})
    return urllib.request.urlopen(r, timeout=120, context=ctx).read().decode()
print(get("example.com"))
for name in ("other.test", "sub.example.com"): # their TLS is the server's own, which nobody here trusts
    try:
        print(get(name))
    except OSError as e:
        print("CERTIFICATE_VERIFY_FAILED" in str(e))
print(os.environ["SANDBOX_TEST_KEY"])
found = []
for at in [os.environ["SSL_CERT_FILE"]] + ["/proc/%s/%s" % (p, f) for p in os.listdir("/proc") if p.isdigit() for f in ("environ", "cmdline")]:
    try:
        if b"sk-jail" + b"-4711" in open(at, "rb").read(): found.append(at)
    except OSError: pass
print([f for f in found if f != "/proc/%d/cmdline" % os.getpid()])
`
	out, st, err := l.run(l.python, "-c", client)
	want := "known true by example.com\nTrue\nTrue\n" + inject.Placeholder + "\n[]"
	if err != nil || st.Code != 0 || strings.TrimSpace(out) != want {
		t.Errorf("%v, status %d:\n%s\nwant\n%s", err, st.Code, out, want)
	}
	if env, st, err := l.run("sh", "-c", "env"); err != nil || st.Code != 0 || strings.Contains(env, secret) {
		t.Errorf("%v, status %d: the environment inside:\n%s", err, st.Code, env)
	}
}
