package promises

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// bench is a place in which the program only decides about what it is asked for.
type bench struct {
	t    *testing.T
	base string
	env  []string
	// values are those by which flags ask for something.
	values map[string]string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, base: t.TempDir()}
	for _, dir := range []string{"home", "run", "work", "hide", "show", "gate", "overlay", "rw"} {
		must(t, os.MkdirAll(b.base+"/"+dir, 0o700))
	}
	must(t, os.Chmod(b.base+"/rw", 0o777)) // root's commands are another user's
	agent, err := net.Listen("unix", b.base+"/run/agent")
	must(t, err)
	t.Cleanup(func() { agent.Close() })
	b.env = []string{"HOME=" + b.base + "/home", "XDG_RUNTIME_DIR=" + b.base + "/run", "PATH=" + os.Getenv("PATH"), "SSH_AUTH_SOCK=" + b.base + "/run/agent"}
	b.values = map[string]string{
		"limit-folders": "1GiB", "hide": b.base + "/hide", "show": b.base + "/show", "gate": b.base + "/gate", "agent": "ssh", "allow-use": "ssh:**", "device": "null", "overlay": b.base + "/overlay", "rw": b.base + "/rw",
		"allow-host": "192.0.2.1", "deny-host": "192.0.2.1", "publish": "127.0.0.1:1:1", "inject": "example.com: X-Key: $HOME", "limit-pids": "500", "limit-memory": "1GiB",
		"limit-memory-high": "1GiB", "limit-cpus": "1", "limit-io": "1GiB", "limit-file": "1GiB", "limit-tmp": "1GiB", "memory": "1GiB", "cpus": "1", "kernel-path": "/k", "initrd-path": "/i",
		"rootfs-path": "/r", "profile": "aider", "listening-base-port": "20000", "listening-port-count": "4", "listening-loopback": "127.0.0.2",
	}
	return b
}

// do runs the program, and returns its exit status and what it says.
func (b *bench) do(args ...string) (status int, said string) {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), drive.Program(b.t, "sandbox"), args...)
	cmd.Dir, cmd.Env = b.base+"/work", b.env
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// setupFlags are what asks for a setup.
func setupFlags(s hypervisor.Setup) []string {
	out := []string{"--isolation", s.Isolation}
	switch s.Isolation {
	case "jail":
		out = append(out, "--bridge", string(s.Bridge))
	case "vm":
		out = append(out, "--fs-backend", string(s.Bridge))
	}
	return out
}

// asks is one way to ask for a feature.
type asks struct {
	feature hypervisor.Feature
	key     string
	flag    string // with its value, as a refusal names it
	flags   []string
}

// ways are all in which features are asked for by flags.
func (b *bench) ways() (out []asks) {
	b.t.Helper()
	for _, f := range hypervisor.Features() {
		for _, w := range f.Wishes {
			if w.Flag == "" || f.Late {
				continue
			}
			for _, v := range w.Values {
				out = append(out, asks{f, w.Key, "--" + w.Flag + " " + v, []string{"--" + w.Flag, v}})
			}
			if v := b.values[w.Flag]; w.Values == nil && v != "" {
				out = append(out, asks{f, w.Key, "--" + w.Flag, []string{"--" + w.Flag, v}})
			} else if w.Values == nil {
				out = append(out, asks{f, w.Key, "--" + w.Flag, []string{"--" + w.Flag}})
			}
		}
	}
	return out
}

// with are the flags without which a flag means nothing.
func (a asks) with(s hypervisor.Setup, has bool) []string {
	switch {
	case !has:
	case a.flags[0] == "--allow-host" && s.Isolation == "landlock":
		return []string{"--network", "pod"}
	case a.flags[0] == "--allow-host", a.flags[0] == "--inject":
		return []string{"--network", "allowlist"}
	case a.flags[0] == "--listening-loopback":
		return []string{"--network-strategy", "rewire-device"}
	case strings.HasPrefix(a.flags[0], "--listening-"):
		return []string{"--network-strategy", "rewire-port"}
	case a.flags[0] == "--allow-use":
		return []string{"--agent", "ssh"}
	}
	return nil
}

// TestFeaturesAreTried: each feature is asked for in each setup, by each of its flags. What the table has not is refused, with what the table says; what it has is not.
func TestFeaturesAreTried(t *testing.T) {
	b := newBench(t)
	tried := 0
	for _, s := range hypervisor.Setups() {
		for _, a := range b.ways() {
			if of := setupFlags(s); len(of) > 2 && of[2] == a.flags[0] { // it says the setup itself
				continue
			}
			tried++
			answer := a.feature.In(s)
			args := slices.Concat([]string{"why", "--host", "192.0.2.1"}, setupFlags(s), a.with(s, answer.Has), a.flags)
			status, said := b.do(args...)
			if answer.Has {
				if status == 2 || strings.Contains(said, "--isolation") && s.Isolation != "landlock" && s.Isolation != "none" {
					t.Errorf("%v is refused (%d): %s", args, status, said)
				}
				continue
			}
			needs := strings.Contains(said, a.flag+" needs --") && strings.Contains(said, answer.Text)
			machine := strings.HasPrefix(a.key, "vm.") && strings.Contains(said, a.flag+" is about a virtual machine")
			if first, _, more := strings.Cut(said, "\n"); status != 2 || !needs && !machine || more && strings.Contains(said[len(first):], "sandbox:") {
				t.Errorf("%v is not refused (%d): %s\nthe table says: %s", args, status, said, answer.Text)
			}
		}
	}
	if tried < 200 {
		t.Errorf("only %d were tried", tried)
	}
}

// together are features that a session of a setup is asked for at once: whatever the table has of those that change nothing of this machine.
func (b *bench) together(s hypervisor.Setup) (flags []string) {
	b.t.Helper()
	for _, a := range b.ways() {
		apart := slices.Contains([]string{"bridge.kind", "jail.devices", "network.policy", "network.allow", "network.inject", "network.publish", "network.listening_base_port", "network.listening_loopback", "profile", "jail.mode", "limits.memory", "limits.memory_high", "limits.cpus", "limits.io"}, a.key)
		if a.feature.In(s).Has && !apart && !strings.HasPrefix(a.key, "vm.") && !slices.Contains([]string{"overlay", "none"}, a.flags[len(a.flags)-1]) && a.flags[0] != "--overlay" {
			flags = append(flags, a.flags...)
		}
	}
	return flags
}

// TestFeaturesTogether: a session has all at once that the table says, but for what excludes each other; and what needs no flag, too.
func TestFeaturesTogether(t *testing.T) {
	require.FUSE(t)
	require.UserNamespaces(t)
	for _, s := range hypervisor.Setups() {
		if s.Isolation == "vm" { // tests/suite/vm
			continue
		}
		t.Run(s.Isolation+","+string(s.Bridge), func(t *testing.T) {
			b := newBench(t)
			put(t, filepath.Join(b.base, "in"), "passed\n")
			args := slices.Concat([]string{"-c", `exec 9<"$0"; exec "$@"`, filepath.Join(b.base, "in"), drive.Program(t, "sandbox"), "run"}, setupFlags(s), b.together(s),
				[]string{"--", "sh", "-c", `test -S "$SANDBOX_STEPS" && echo steps; read -r x <&9 && echo "$x"`})
			cmd := exec.CommandContext(t.Context(), "sh", args...)
			cmd.Dir, cmd.Env = b.base+"/work", b.env
			out, err := cmd.Output()
			var said []byte
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				said = exit.Stderr
			}
			if err != nil {
				t.Fatalf("%v: %v\n%s", args, err, said)
			}
			steps, _ := hypervisor.Find("steps inside")
			if got := strings.Contains(string(out), "steps\n"); got != steps.In(s).Has {
				t.Errorf("steps inside: %t", got)
			}
			files, _ := hypervisor.Find("open files")
			if got := strings.Contains(string(out), "passed\n"); got != files.In(s).Has {
				t.Errorf("open files: %t", got)
			}
		})
	}
}

// TestFeaturesWithoutFlags: what 'sandbox why' explains is what the table says, and the policy of barriers that a session cannot keep is refused.
func TestFeaturesWithoutFlags(t *testing.T) {
	b := newBench(t)
	for _, s := range hypervisor.Setups() {
		for name, what := range map[string][]string{"explained view": {"--path", b.base}, "filter": {"--syscall", "read"}} {
			f, ok := hypervisor.Find(name)
			if !ok {
				t.Fatal(name)
			}
			status, said := b.do(slices.Concat([]string{"why"}, what, setupFlags(s))...)
			if a := f.In(s); a.Has != (status == 0) || !a.Has && !strings.Contains(said, a.Text) {
				t.Errorf("%s in %v: %d, %s", name, s, status, said)
			}
		}
	}
	f, _ := hypervisor.Find("lock")
	for _, s := range hypervisor.Setups() {
		if a := f.In(s); !a.Has {
			if status, said := b.do(slices.Concat([]string{"run"}, setupFlags(s), []string{"--barriers", "lock", "--", "true"})...); status != 125 || !strings.Contains(said, a.Text) {
				t.Errorf("lock in %v: %d, %s", s, status, said)
			}
		}
	}
}
