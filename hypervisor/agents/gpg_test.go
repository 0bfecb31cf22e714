package agents

import (
	"bufio"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	grip  = "49FDB022727FD919E3F7E694B351CD449B0D1DDF"
	hash  = "0E1A915C977D8F84B11B629B7789B70A6B24A19DA813EDB2456E20DFE1ABCD20"
	isBad = "ERR 67109115 Forbidden"
)

// TestParseRequest: what passes is put together anew, and all else is refused.
func TestParseRequest(t *testing.T) {
	for line, want := range map[string]string{
		"NOP": "", "bye": "", "RESET": "RESET", "SETKEYDESC anything": "", "GETINFO restricted": "", "GETINFO version": "GETINFO version",
		"OPTION agent-awareness=2.1.0": "OPTION agent-awareness=2.1.0", "HAVEKEY " + grip + "  " + strings.ToLower(grip): "HAVEKEY " + grip + " " + grip,
		"HAVEKEY --list=1000": "HAVEKEY --list=1000", "KEYINFO " + grip: "KEYINFO " + grip, "READKEY " + grip: "READKEY " + grip, "SETKEY " + grip: "SIGKEY " + grip,
		"SETHASH 008 " + strings.ToLower(hash): "SETHASH 8 " + hash, "SETHASH --hash=sha256 " + hash: "SETHASH --hash=sha256 " + hash, "PKSIGN": "PKSIGN", "PKSIGN -- ABC": "PKSIGN",
	} {
		if q, err := parseRequest(line); err != nil || q.line != want {
			t.Errorf("%q: %q, %v", line, q.line, err)
		}
	}
	for _, line := range []string{
		"", "#", "D x", "END", "CAN", "GETINFO pid", "GETINFO", "GETINFO version x", "OPTION", "OPTION allow-pinentry-notify", "OPTION putenv=A=b", "OPTION agent-awareness=x", "HAVEKEY", "HAVEKEY --list x",
		"HAVEKEY " + strings.Repeat(grip+" ", maxGrips+1), "KEYINFO --list", "KEYINFO " + grip + " " + grip, "READKEY --card " + grip, "READKEY " + grip[1:], "SIGKEY", "SIGKEY x" + grip[1:],
		"SETHASH 8", "SETHASH 8 00", "SETHASH 256 " + hash, "SETHASH --inquire", "SETHASH --hash=a\x00 " + hash, "SETHASH --hash= " + hash, "PKSIGN x", "PKSIGN -- a b", "NOP\x1b", "RESET x",
		"PKDECRYPT", "EXPORT_KEY " + grip, "IMPORT_KEY", "DELETE_KEY " + grip, "GENKEY", "PASSWD " + grip, "PRESET_PASSPHRASE " + grip, "LEARN", "SCD LEARN", "KILLAGENT", "RELOADAGENT", "GET_PASSPHRASE a b c d",
		"GET_CONFIRMATION x", "CLEAR_PASSPHRASE x", "MARKTRUSTED x", "LISTTRUSTED", "ISTRUSTED x", "KEYWRAP_KEY --export", "UPDATESTARTUPTTY", "GETEVENTCOUNTER", "PUTVAL a", "GETVAL a", "KEYTOCARD", "KEYATTR", "PKSIGN\tx",
	} {
		if q, err := parseRequest(line); err == nil {
			t.Errorf("%q passes as %q", line, q.line)
		}
	}
}

// gpgPair is a relay between a program and an agent that answers each line with what is given for it.
type gpgPair struct {
	client *lines
	mu     sync.Mutex
	got    []string // what the agent was asked
	uses   []string
}

func newGPGPair(t *testing.T, allow bool, answers map[string]string) *gpgPair {
	t.Helper()
	p := &gpgPair{}
	var ends sync.WaitGroup
	r := NewGPG(Options{
		Names: map[string]string{grip: "Me\x1b <me@example.org>"},
		Dial: func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			ends.Go(func() {
				defer theirs.Close()
				_, _ = theirs.Write([]byte(answers[""]))
				for in := bufio.NewScanner(theirs); in.Scan(); {
					verb, _, _ := strings.Cut(in.Text(), " ")
					p.mu.Lock()
					p.got = append(p.got, in.Text())
					p.mu.Unlock()
					if _, err := theirs.Write([]byte(answers[verb])); err != nil {
						return
					}
				}
			})
			return ours, nil
		},
		Use: func(_ context.Context, u Use, _ net.Conn) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.uses = append(p.uses, u.Subject()+" "+u.String())
			return allow
		},
	})
	ours, theirs := net.Pipe()
	p.client = newLines(ours)
	ends.Go(func() { r.connection(context.Background(), theirs) })
	t.Cleanup(func() { _ = ours.Close(); ends.Wait() })
	return p
}

// next is the answer's next line.
func (p *gpgPair) next(t *testing.T) string {
	t.Helper()
	text, err := p.client.next(patience)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (p *gpgPair) ask(t *testing.T, line string) string {
	t.Helper()
	if err := p.client.write(line); err != nil {
		t.Fatal(err)
	}
	return p.next(t)
}

var honest = map[string]string{"": "OK 2.2.40, process 7\n", "RESET": "OK closing\n", "SIGKEY": "OK\n", "SETHASH": "OK\n", "SETKEYDESC": "OK\n", "CAN": "ERR 67108963 cancelled\n",
	"PKSIGN": "# a remark\nS PROGRESS x\nD (7:sig-val\x1b%0A)\nOK\n", "HAVEKEY": "ERR 67108881 No secret key <GPG Agent>\n", "READKEY": "INQUIRE PASSPHRASE\n"}

// TestGPGSigns: a signature needs a key and a yes. What the agent's user reads is ours, and what a program is told is the agent's answer alone.
func TestGPGSigns(t *testing.T) {
	p := newGPGPair(t, true, honest)
	if got := p.next(t); got != "OK Pleased to meet you" {
		t.Error(got)
	}
	for _, c := range [][2]string{
		{"PKSIGN", "ERR 67108881 the sandbox's agent"}, {"SIGKEY " + grip, "OK"}, {"RESET", "OK"}, {"PKSIGN", "ERR 67108881 the sandbox's agent"}, {"SIGKEY " + grip, "OK"},
		{"SETKEYDESC lies", "OK"}, {"SETHASH 8 " + hash, "OK"}, {"KILLAGENT", isBad}, {"HAVEKEY " + grip, "ERR 67108881 the sandbox's agent"}, {"READKEY " + grip, "ERR 67108963 the sandbox's agent"},
		{"PKSIGN", "D (7:sig-val\x1b%0A)"},
	} {
		if got := p.ask(t, c[0]); got != c[1] {
			t.Errorf("%s: %q", c[0], got)
		}
	}
	if got := p.next(t); got != "OK" {
		t.Error(got)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if want := "gpg:" + grip + `:sign use the gpg key "Me\x1b <me@example.org>" (` + grip + ") to sign"; len(p.uses) != 1 || p.uses[0] != want {
		t.Errorf("%q", p.uses)
	}
	if n := len(p.got); !strings.HasPrefix(p.got[n-2], "SETKEYDESC A+program+in+a+sandbox+wants+to+use") || p.got[n-1] != "PKSIGN" || slices.ContainsFunc(p.got, func(s string) bool { return strings.Contains(s, "lies") || s == "KILLAGENT" }) {
		t.Errorf("%q", p.got)
	}
}

// TestGPGRefuses: without a yes the agent signs nothing, and a line that is too long ends the connection.
func TestGPGRefuses(t *testing.T) {
	p := newGPGPair(t, false, honest)
	p.next(t)
	p.ask(t, "SIGKEY "+grip)
	if got := p.ask(t, "PKSIGN"); got != isBad {
		t.Error(got)
	}
	p.mu.Lock()
	if slices.Contains(p.got, "PKSIGN") || len(p.uses) != 1 {
		t.Errorf("%q %q", p.got, p.uses)
	}
	p.mu.Unlock()
	_ = p.client.write("NOP " + strings.Repeat("x", maxLine))
	if got, err := p.client.next(patience); err == nil {
		t.Errorf("%q", got)
	}
}

// TestALyingGPGAgent: an answer that is none is an error, and nothing more is asked of that agent.
func TestALyingGPGAgent(t *testing.T) {
	const gone = "ERR 67108941 No agent running"
	for name, answer := range map[string]string{
		"nothing signed": "OK\n", "a strange line": "HELLO\n", "no number": "ERR x\n", "a zero": "ERR 0\n", "a long line": "D (7:sig-val" + strings.Repeat("x", maxLine) + "\n",
		"much data": strings.Repeat("D (7:sig-val"+strings.Repeat("x", 900)+"\n", 80), "questions": "INQUIRE X\n",
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]string{"": "OK\n", "SIGKEY": "OK\n", "SETKEYDESC": "OK\n", "PKSIGN": answer, "CAN": "INQUIRE X\n"}
			p := newGPGPair(t, true, answers)
			p.next(t)
			p.ask(t, "SIGKEY "+grip)
			for range 2 {
				if got := p.ask(t, "PKSIGN"); got != gone {
					t.Errorf("%q", got)
				}
			}
		})
	}
	if got := newGPGPair(t, true, map[string]string{"": "HTTP/1.1 400\n"}).next(t); got != gone {
		t.Errorf("%q", got)
	}
}

// FuzzAssuan: whatever a program or an agent sends, nothing panics, and what passes is a bounded line of printable characters with a known command.
func FuzzAssuan(f *testing.F) {
	for _, line := range []string{"SIGKEY " + grip, "HAVEKEY " + grip + " " + grip, "SETHASH 8 " + hash, "PKSIGN -- A", "OPTION agent-awareness=2.1.0", "D (7:sig-val", "ERR 67109115 x", "INQUIRE X", "S KEYINFO x"} {
		f.Add(line)
	}
	known := []string{"RESET", "OPTION", "GETINFO", "HAVEKEY", "KEYINFO", "READKEY", "SIGKEY", "SETHASH", "PKSIGN"}
	f.Fuzz(func(t *testing.T, line string) {
		q, err := parseRequest(line)
		verb, _, _ := strings.Cut(q.line, " ")
		if err == nil && q.line != "" && (!slices.Contains(known, verb) || len(q.line) > maxLine || strings.ContainsFunc(q.line, func(r rune) bool { return r < ' ' || r > '~' })) {
			t.Errorf("%q passes as %q", line, q.line)
		}
		var r reply
		if done, _, err := r.add("PKSIGN", line); done && err == nil && !strings.HasPrefix(r.lines[0], "ERR ") {
			t.Errorf("%q is a signature", line)
		}
		if d := description(Use{Key: grip, Kind: OpenPGP, Comment: line[:min(len(line), 100)]}); len(d) > maxLine || strings.ContainsAny(d, " \n\r") && strings.Count(d, " ") != 1 {
			t.Errorf("%q", d)
		}
	})
}
