package agents

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func str(parts ...string) (b []byte) {
	for _, p := range parts {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(p))), p...)
	}
	return b
}

const key = "\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x03pub"

func sshsig(namespace string) string {
	return sigMagic + string(str(namespace, "", "sha512", strings.Repeat("h", 64)))
}

func login(method, user string, more ...string) string {
	return string(str("session")) + "\x32" + string(str(user, authService, method)) + "\x01" + string(str(append([]string{"ssh-ed25519", key}, more...)...))
}

func signBody(data string, flags uint32) []byte {
	return binary.BigEndian.AppendUint32(str(key, data), flags)
}

// TestParseSign: what is understood, and all else is refused.
func TestParseSign(t *testing.T) {
	fp := fingerprint([]byte(key))
	for _, c := range []struct {
		body    []byte
		subject string
	}{
		{signBody(sshsig("git"), 0), "ssh:" + fp + ":sign:git"},
		{signBody(sshsig("a:b\x1b"), flagSHA512), "ssh:" + fp + `:sign:a\x3ab\x1b`},
		{signBody(login(authKey, "git"), 0), "ssh:" + fp + ":login:git"},
		{signBody(login(authKeyAtHost, "git", "host"), 0), "ssh:" + fp + ":login:git:" + fingerprint([]byte("host"))},
	} {
		if u, err := parseSign(c.body); err != nil || u.Subject() != c.subject || strings.ContainsAny(u.String(), "\x1b\n") {
			t.Errorf("%q: %q %q, %v", c.body, u.Subject(), u, err)
		}
	}
	for name, body := range map[string][]byte{
		"anything":          signBody("anything", 0),
		"empty":             signBody("", 0),
		"a flag":            signBody(sshsig("git"), 1),
		"more":              append(signBody(sshsig("git"), 0), 0),
		"more signed":       signBody(sshsig("git")+"x", 0),
		"no namespace":      signBody(sshsig(""), 0),
		"a long namespace":  signBody(sshsig(strings.Repeat("n", maxText+1)), 0),
		"a zero":            signBody(sshsig("a\x00"), 0),
		"a short hash":      signBody(sigMagic+string(str("git", "", "sha512", "h")), 0),
		"an unknown hash":   signBody(sigMagic+string(str("git", "", "md5", "")), 0),
		"no user":           signBody(login(authKey, ""), 0),
		"another method":    signBody(login("hostbased", "git"), 0),
		"no server":         signBody(login(authKeyAtHost, "git"), 0),
		"a server too many": signBody(login(authKey, "git", "host"), 0),
		"another key":       binary.BigEndian.AppendUint32(str("other", login(authKey, "git")), 0),
		"not signed":        signBody(strings.Replace(login(authKey, "git"), "\x01", "\x00", 1), 0),
		"a length":          {0xff, 0xff, 0xff, 0xff},
	} {
		if u, err := parseSign(body); err == nil {
			t.Errorf("%s: passes as %s", name, u)
		}
	}
}

// greeting answers what each connection asks first: there is no key.
var greeting = frame(keys, 0, 0, 0, 0)

// pair is a relay between a program and an agent that answers with what it is given, in turn, after its greeting.
type pair struct {
	client net.Conn
	mu     sync.Mutex
	got    []message // what the agent was asked
	uses   []Use
	allow  bool
}

func newPair(t *testing.T, answers ...[]byte) *pair {
	t.Helper()
	return newGreeted(t, append([][]byte{greeting}, answers...)...)
}

// newGreeted is newPair with an agent whose first answer is a greeting, or a lie.
func newGreeted(t *testing.T, answers ...[]byte) *pair {
	t.Helper()
	p := &pair{allow: true}
	var ends sync.WaitGroup
	r := New(Options{
		Dial: func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			ends.Go(func() {
				defer theirs.Close()
				for _, a := range answers {
					m, err := receive(theirs, patience)
					if err != nil {
						return
					}
					p.mu.Lock()
					p.got = append(p.got, m)
					p.mu.Unlock()
					if _, err := theirs.Write(a); err != nil {
						return
					}
				}
			})
			return ours, nil
		},
		Use: func(_ context.Context, u Use, _ net.Conn) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.uses = append(p.uses, u)
			return p.allow
		},
	})
	ours, theirs := net.Pipe()
	p.client = ours
	ends.Go(func() { r.connection(context.Background(), theirs) })
	t.Cleanup(func() { _ = ours.Close(); ends.Wait() })
	return p
}

func (p *pair) ask(t *testing.T, kind byte, body []byte) message {
	t.Helper()
	if err := send(p.client, message{kind, body}); err != nil {
		t.Fatal(err)
	}
	m, err := receive(p.client, patience)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func frame(kind byte, body ...byte) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+1)), kind), body...)
}

// TestWhatPasses: of all types three reach the agent, a signature only with a yes.
func TestWhatPasses(t *testing.T) {
	list := append([]byte{0, 0, 0, 1}, str(key, "me@here")...)
	signed := str(string(str("ssh-ed25519", "sig")))
	p := newPair(t, frame(keys, list...), frame(signature, signed...), frame(success))
	for kind := range 256 {
		if k := byte(kind); k == listKeys || k == sign || k == extension {
			continue
		}
		if m := p.ask(t, byte(kind), nil); m.kind != failure {
			t.Errorf("type %d is answered with %d", kind, m.kind)
		}
	}
	for _, body := range [][]byte{str("query"), str(bind), append(str("restrict-destination-v00@openssh.com"), 1)} {
		if m := p.ask(t, extension, body); m.kind != failure {
			t.Errorf("%q is answered with %d", body, m.kind)
		}
	}
	if m := p.ask(t, listKeys, nil); m.kind != keys || !bytes.Equal(m.body, list) {
		t.Error(m)
	}
	p.allow = false
	if m := p.ask(t, sign, signBody(sshsig("git"), 0)); m.kind != failure {
		t.Error(m)
	}
	p.allow = true
	if m := p.ask(t, sign, signBody(sshsig("git"), 0)); m.kind != signature || !bytes.Equal(m.body, signed) {
		t.Error(m)
	}
	if m := p.ask(t, extension, append(str(bind, "host", "session", "proof"), 0)); m.kind != success {
		t.Error(m)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.got) != 4 || len(p.uses) != 2 || p.uses[0].Comment != "me@here" {
		t.Errorf("the agent was asked %d times, %+v", len(p.got), p.uses)
	}
}

// TestALyingAgent: an answer that is none is a failure, and nothing more is asked of that agent.
func TestALyingAgent(t *testing.T) {
	for name, answer := range map[string][]byte{
		"nothing":          nil,
		"a list":           frame(keys, 0, 0, 0, 0),
		"a length":         {0xff, 0xff, 0xff, 0xff, signature},
		"no length":        {0, 0, 0, 0, signature},
		"a success":        frame(success),
		"an empty one":     frame(signature),
		"half a signature": frame(signature, 0, 0, 0, 9, 1),
		"the end":          {0, 0, 0, 9, signature},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, answer)
			for range 2 {
				if m := p.ask(t, sign, signBody(sshsig("git"), 0)); m.kind != failure || len(m.body) > 0 {
					t.Errorf("%+v", m)
				}
			}
		})
	}
	for _, p := range []*pair{newPair(t, frame(keys, 0xff, 0xff, 0xff, 0xff)), newGreeted(t, frame(keys, 0xff, 0xff, 0xff, 0xff)), newGreeted(t, nil), newGreeted(t, frame(success))} {
		if m := p.ask(t, listKeys, nil); m.kind != failure {
			t.Errorf("%+v", m)
		}
	}
}

// TestW10Queue: a program that connects again and again has no more connections in the queue of the agent's socket than it may have at once, also if it closes them at once: the user's own programs would find it full.
func TestW10Queue(t *testing.T) {
	var dialled, answered, most atomic.Int64
	queue := make(chan net.Conn, 1000) // of the agent's socket
	r := New(Options{Dial: func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		waiting := dialled.Add(1) - answered.Load()
		for m := most.Load(); m < waiting && !most.CompareAndSwap(m, waiting); m = most.Load() {
		}
		queue <- theirs
		return ours, nil
	}})
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { defer close(over); r.Serve(l) }()
	connect := func() {
		c, err := net.Dial("unix", filepath.Join(dir, "s"))
		if err == nil {
			err = c.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}
	for range mostConnections + 50 {
		connect()
	}
	for range mostConnections + 50 { // the agent has time now
		c := <-queue
		_, err := receive(c, patience)
		answered.Add(1)
		if err == nil {
			_, _ = c.Write(greeting)
		}
		_ = c.Close()
	}
	_ = l.Close()
	<-over
	if n := most.Load(); n > mostConnections {
		t.Errorf("%d connections waited at once", n)
	}
}

// TestWhoGoesIsNotWaitedFor: a decision about the use of a program that has ended is given up.
func TestWhoGoesIsNotWaitedFor(t *testing.T) {
	asked, over := make(chan bool), make(chan bool)
	r := New(Options{
		Dial: func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				if _, err := receive(theirs, patience); err == nil {
					_, _ = theirs.Write(greeting)
				}
			}()
			return ours, nil
		},
		Use: func(ctx context.Context, _ Use, _ net.Conn) bool {
			close(asked)
			<-ctx.Done()
			return true
		},
	})
	ours, theirs := net.Pipe()
	go func() { defer close(over); r.connection(context.Background(), theirs) }()
	if err := send(ours, message{sign, signBody(sshsig("git"), 0)}); err != nil {
		t.Fatal(err)
	}
	<-asked
	_ = ours.Close()
	<-over
}

// TestRealAgent: ssh-add and ssh-keygen through the relay, to a real agent.
func TestRealAgent(t *testing.T) {
	for _, program := range []string{"ssh-agent", "ssh-add", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs " + program + ": apt install openssh-client")
		}
	}
	dir := t.TempDir()
	real, relayed := filepath.Join(dir, "real"), filepath.Join(dir, "relayed")
	agent := exec.Command("ssh-agent", "-D", "-a", real)
	out, err := agent.StdoutPipe()
	if err != nil || agent.Start() != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Kill(); _ = agent.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil { // it says its socket when that is there
		t.Fatal(err)
	}
	run := func(socket, stdin, name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), "SSH_AUTH_SOCK="+socket), strings.NewReader(stdin)
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	must := func(text string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err, text)
		}
		return text
	}
	must(run(real, "", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", "k"))
	must(run(real, "", "ssh-add", "-q", "k"))
	if err := os.Remove(filepath.Join(dir, "k")); err != nil { // the agent has it
		t.Fatal(err)
	}
	var mu sync.Mutex
	var uses []string
	r := New(Options{
		Dial: func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", real) },
		Use: func(_ context.Context, u Use, _ net.Conn) bool {
			mu.Lock()
			defer mu.Unlock()
			uses = append(uses, u.String())
			return u.Namespace == "git"
		},
	})
	l, err := net.Listen("unix", relayed)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool)
	go func() { defer close(ended); r.Serve(l) }()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	if native, inside := must(run(real, "", "ssh-add", "-l")), must(run(relayed, "", "ssh-add", "-l")); native != inside {
		t.Errorf("%q, natively %q", inside, native)
	}
	native := must(run(real, "text", "ssh-keygen", "-Y", "sign", "-f", "k.pub", "-n", "git"))
	if inside := must(run(relayed, "text", "ssh-keygen", "-Y", "sign", "-f", "k.pub", "-n", "git")); inside != native {
		t.Errorf("%q, natively %q", inside, native)
	}
	if text, err := run(relayed, "text", "ssh-keygen", "-Y", "sign", "-f", "k.pub", "-n", "file"); err == nil {
		t.Error("a signature for a file was made", text)
	}
	for _, args := range [][]string{{"-D"}, {"-d", "k.pub"}} {
		if text, err := run(relayed, "", "ssh-add", args...); err == nil {
			t.Error("ssh-add", args, text)
		}
	}
	if text := must(run(real, "", "ssh-add", "-l")); !strings.Contains(text, " me ") {
		t.Error("the agent has lost the key:", text)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(uses) != 2 || !strings.HasPrefix(uses[0], "use the ssh key me (SHA256:") || !strings.HasSuffix(uses[0], "to sign for git") {
		t.Errorf("%q", uses)
	}
}

// FuzzMessages: whatever a program or an agent sends, nothing panics, and a subject is printable and in bounds.
func FuzzMessages(f *testing.F) {
	for _, body := range [][]byte{signBody(sshsig("git"), 0), signBody(login(authKey, "git"), 2), signBody(login(authKeyAtHost, "git", "host"), 0), append(str(bind, "h", "s", "p"), 1),
		append([]byte{0, 0, 0, 1}, str(key, "me")...), str(string(str("a", "b")))} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if u, err := parseSign(body); err == nil {
			if same, err := ParseUse(u.Subject()); err != nil || same != u {
				t.Errorf("%q is read as %+v, %v", u.Subject(), same, err)
			}
			if s := u.Subject(); len(s) > 5*maxText || strings.ContainsFunc(s+u.String(), func(r rune) bool { return r < ' ' || r > '~' }) || strings.ContainsAny(s, " *") {
				t.Errorf("%q", s)
			}
		}
		_ = checkBind(body)
		_ = checkSignature(body)
		if names, err := parseKeys(body); err == nil && len(names) > maxKeys {
			t.Error(len(names))
		}
	})
}

// FuzzParseUse: what is taken is one use, whose subject is the text.
func FuzzParseUse(f *testing.F) {
	key := fingerprint([]byte("key"))
	for _, ok := range []string{"ssh:" + key + ":sign:git", `ssh:` + key + `:sign:a\x3ab`, "ssh:" + key + ":login:me", "gpg:" + grip + ":sign", "ssh:" + key + ":login:me:" + fingerprint([]byte("server"))} {
		if _, err := ParseUse(ok); err != nil {
			f.Error(err)
		}
		f.Add(ok)
	}
	for _, bad := range []string{
		"", "git", "gpg:" + grip + ":login", "gpg:**:sign", "gpg:x" + grip[1:] + ":sign", "ssh:**:sign:git", "ssh:" + key + ":sign:*", "ssh:" + key + ":sign:", "ssh:" + key + ":sing:git", "ssh:" + key + ":sign:git:" + key, "gpg:" + key + ":sign:git",
		"ssh:" + key + `:sign:\x61`, "ssh:" + key + `:sign:a\x3`, "ssh:SHA256:AAAA:sign:git", "ssh:" + key + ":login:me:SHA256:", "ssh:" + key + ":login:a b",
	} {
		if u, err := ParseUse(bad); err == nil {
			f.Errorf("%q passes as %s", bad, u)
		}
		f.Add(bad)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if u, err := ParseUse(text); err == nil && (u.Subject() != text || strings.ContainsAny(text, " *\x1b")) {
			t.Errorf("%q: %+v", text, u)
		}
	})
}
