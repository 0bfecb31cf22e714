package pod

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

// together runs two sessions in one pod, in folders one and two, each with the flags and a probe. When both listen, the third probe is run outside of them, and then they end.
const together = `set -e
base=$1 flags=$2 first=$3 second=$4 outside=$5
start() { # a fifo is the session's stdin: the probe goes on until it is closed
	mkfifo "$base/$1.in"
	"$SANDBOX" run -C "$base/$1" $flags -- ./probe "$2" <"$base/$1.in" >"$base/$1.out" 2>&1 &
}
listens() {
	until grep -q '^at ' "$base/$1.out" || grep -q '^hold' "$base/$1.out"; do sleep 0.02; done
}
start one "$first"
exec 3>"$base/one.in"
listens one # so it has the first window
start two "$second"
exec 4>"$base/two.in"
listens two
"$base/one/probe" $outside
exec 3>&- 4>&-
wait
sed 's/^/one /' "$base/one.out"
sed 's/^/two /' "$base/two.out"
`

// inOnePod runs together, and returns its lines.
func inOnePod(t *testing.T, plain bool, flags, first, second, outside string) string {
	t.Helper()
	s := newSession(t)
	base := t.TempDir()
	for _, name := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
			t.Fatal(err)
		}
		program, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(base, name, "probe"), program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := s.Bare(t.Context())
	cmd.Env = append(cmd.Env, "SANDBOX="+cmd.Path)
	if plain {
		cmd.Env = append(cmd.Env, plainEnv+"=1")
	}
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", together, "sh", base, flags, first, second, outside}
	place(cmd)
	out, err := cmd.CombinedOutput()
	if code := drive.ExitCode(t, err); code != 0 || strings.Contains(string(out), "LEAK") {
		t.Errorf("exit status %d:\n%s", code, out)
	}
	return string(out)
}

// TestPodRewires: two sessions of one pod listen at the same port. Each reaches its own server there, and outside each is reached at a port, or an address, of its session; so it is where no sockets
// can be copied.
func TestPodRewires(t *testing.T) {
	isolations(t, func(t *testing.T, isolation string) {
		for _, plain := range []bool{false, true} {
			said := inOnePod(t, plain, "--isolation "+isolation+" --network pod --network-strategy rewire-port", "hold/127.0.0.1:3000", "hold/0.0.0.0:3000", "tcp/127.0.0.1:20000 tcp/127.0.0.1:20016 tcp/127.0.0.1:3000")
			check(t, said, map[string]string{
				"tcp/127.0.0.1:20000": "ok, one", "tcp/127.0.0.1:20016": "ok, two", "tcp/127.0.0.1:3000": "ECONNREFUSED",
				"one hold/127.0.0.1:3000": "ok, one", "two hold/0.0.0.0:3000": "ok, two",
				"one sandbox: network": "port 3000 of the commands is reached at 127.0.0.1:20000", "two sandbox: network": "port 3000 of the commands is reached at 127.0.0.1:20016",
			})
		}
		said := inOnePod(t, false, "--isolation "+isolation+" --network pod --network-strategy rewire-device", "hold/[::]:3000", "hold/127.0.0.1:3000", "tcp/127.88.0.1:3000 tcp/127.88.0.2:3000 tcp/127.0.0.1:3000")
		check(t, said, map[string]string{
			"tcp/127.88.0.1:3000": "ok, one", "tcp/127.88.0.2:3000": "ok, two", "tcp/127.0.0.1:3000": "ECONNREFUSED", "one hold/[::]:3000": "ok, one", "two hold/127.0.0.1:3000": "ok, two",
		})
	})
}

// TestPodWindow: in one pod each session listens in its own window, by TCP and UDP, and nowhere else, whatever family the address says it has; where the kernel chooses the port, there is no conflict.
func TestPodWindow(t *testing.T) {
	isolations(t, func(t *testing.T, isolation string) {
		flags := "--isolation " + isolation + " --network pod --network-strategy fail"
		said := inOnePod(t, false, flags, "hold/127.0.0.1:$LISTENING_BASE_PORT", "hold/0.0.0.0:$LISTENING_BASE_PORT", "tcp/127.0.0.1:20000 tcp/127.0.0.1:20016")
		check(t, said, map[string]string{"tcp/127.0.0.1:20000": "ok, one", "tcp/127.0.0.1:20016": "ok, two"})
		for _, plain := range []string{"", "1"} {
			s := newSession(t)
			s.Env = append(s.Env, plainEnv+"="+plain)
			want := map[string]string{
				"hold/127.0.0.1:3000": "EACCES", "hold/0.0.0.0:19999": "EACCES", "hold/[::]:20016": "EACCES", "bind/127.0.0.1:3000": "EACCES", "bind/127.0.0.1:20003": "ok", "unspecified/3000": "EACCES", "unspecified/20005": "ok", "own/": "ok",
			}
			said, status := inPod(t, s, append(append([]string{"run"}, strings.Fields(flags)...), append([]string{"--", "./probe"}, keys(want)...)...)...)
			if status != 0 {
				t.Errorf("exit status %d", status)
			}
			check(t, said, want)
		}
	})
}
