package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/codeagent/sandbox/actors/frontend/control"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/screen"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestScripts runs tests/suite/scripts against this program. Beside testscript's own
// commands they have:
//
//	exec exits N CMD...  CMD ends with exit status N
//	snap NAME DIR        remembers a tree
//	[!] same NAME DIR    fails unless the tree is exactly as remembered
//	await FILE           waits until FILE exists
//	later CMD...         runs CMD until it succeeds
//	agent CLIENT COMMAND runs COMMAND as the agent does that 'install --shell' has set up
//
// A commit has each script as root or as the user, and those that ask who runs them as both.
func TestScripts(t *testing.T) {
	p := scripts(t)
	all, err := filepath.Glob(filepath.Join(scriptsDir, "*.txtar"))
	if err != nil || len(all) == 0 {
		t.Fatalf("%d scripts, %v", len(all), err)
	}
	turn := require.Turn(t)
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if mine := turn(); mine || asksWho.Match(text) {
			p.Files = append(p.Files, file)
		}
	}
	testscript.Run(t, p)
}

// asksWho finds scripts whose result depends on the user.
var asksWho = regexp.MustCompile(`\[!?root\]|\bid -u`)

// TestScriptsOverFUSE repeats what depends on the bridge, for a user who has set it.
func TestScriptsOverFUSE(t *testing.T) {
	p := scripts(t)
	turn := require.Turn(t)
	for _, name := range []string{"barrier", "killed", "restore", "run_undo_redo", "safeguard_approve", "safeguard_deny", "undo_abort"} {
		if turn() {
			p.Files = append(p.Files, filepath.Join(scriptsDir, name+".txtar"))
		}
	}
	p.Setup = func(env *testscript.Env) error {
		if err := scriptEnvironment(env); err != nil {
			return err
		}
		dir := filepath.Join(env.Getenv("XDG_CONFIG_HOME"), "codeagent")
		return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "codeagent.toml"), []byte("[bridge]\nkind = \"fuse\"\n"), 0o644))
	}
	testscript.Run(t, p)
}

var scriptsDir = filepath.Join("..", "..", "tests", "suite", "scripts")

func scripts(t *testing.T) testscript.Params {
	t.Helper()
	require.FUSE(t)
	require.UserNamespaces(t)
	return testscript.Params{
		RequireExplicitExec: true,
		Setup:               scriptEnvironment,
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "32bit": // the kernel runs programs of 32 bits (CONFIG_IA32_EMULATION)
				_, err := os.Stat("/proc/sys/abi/vsyscall32")
				return err == nil || runtime.GOARCH == "amd64" && require.CI(), nil
			case "mount": // without a jail, in this namespace
				_, err := exec.LookPath("fusermount3")
				return err == nil || os.Geteuid() == 0 || require.CI(), nil
			}
			return false, errors.New("no such condition: " + name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"snap":  scriptSnap,
			"same":  scriptSame,
			"await": scriptAwait,
			"later": scriptLater,
			"agent": scriptAgent,
		},
	}
}

// snapsKey is where a script's snapshots are.
type snapsKey struct{}

// scriptEnvironment gives every script a home, a state and a runtime directory
// of its own. The last is short: a socket's path must not exceed 107 bytes.
func scriptEnvironment(env *testscript.Env) error {
	run, err := os.MkdirTemp("/tmp", "sb")
	if err != nil {
		return err
	}
	env.Defer(func() {
		for _, r := range control.Registrations(filepath.Join(run, "sandbox")) { // of a script that has failed
			_ = syscall.Kill(r.PID, syscall.SIGKILL)
		}
		os.RemoveAll(run)
	})
	env.Setenv("XDG_RUNTIME_DIR", run)
	for name, dir := range map[string]string{
		"HOME": ".home", "XDG_STATE_HOME": ".state", "XDG_CONFIG_HOME": ".config", "W": "work",
	} {
		path := filepath.Join(env.WorkDir, dir)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		env.Setenv(name, path)
	}
	env.Setenv("GORACE", os.Getenv("GORACE"))
	env.Values[snapsKey{}] = map[string]*treesnap.Snapshot{}
	return nil
}

func scriptSnap(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: snap NAME DIR")
	}
	s, err := treesnap.Take(ts.MkAbs(args[1]))
	ts.Check(err)
	ts.Value(snapsKey{}).(map[string]*treesnap.Snapshot)[args[0]] = s
}

func scriptSame(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] same NAME DIR")
	}
	before := ts.Value(snapsKey{}).(map[string]*treesnap.Snapshot)[args[0]]
	if before == nil {
		ts.Fatalf("no snapshot %q", args[0])
	}
	now, err := treesnap.Take(ts.MkAbs(args[1]))
	ts.Check(err)
	diff := treesnap.Diff(before, now, treesnap.Options{})
	if neg && len(diff) == 0 {
		ts.Fatalf("the tree is as in %q", args[0])
	}
	if !neg && len(diff) > 0 {
		ts.Fatalf("the tree is not as in %q:\n%s", args[0], strings.Join(diff, "\n"))
	}
}

func scriptAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	until(ts, args[0]+" to exist", func() bool {
		_, err := os.Lstat(ts.MkAbs(args[0]))
		return err == nil
	})
}

func scriptLater(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: later CMD...")
	}
	until(ts, strings.Join(args, " ")+" to succeed", func() bool {
		return ts.Exec(args[0], args[1:]...) == nil
	})
}

// until polls: what is waited for is another process's doing.
func until(ts *testscript.TestScript, what string, done func() bool) {
	for deadline := time.Now().Add(screen.Patience); !done(); {
		if time.Now().After(deadline) {
			ts.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// exits is the program of that name in scripts.
func exits(args []string) int {
	cmd := exec.Command(args[2], args[3:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		os.Stderr.WriteString("exits: " + err.Error() + "\n")
		return 1
	}
	code := cmd.ProcessState.ExitCode()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() { // as a shell says it
		code = 128 + int(ws.Signal())
	}
	if got := strconv.Itoa(code); got != args[1] {
		os.Stderr.WriteString("exits: exit status " + got + ", want " + args[1] + "\n")
		return 1
	}
	return 0
}
