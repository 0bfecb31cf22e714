package drive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// marker is the variable by which the processes of one Sandbox are found.
const marker = "SANDBOX_TEST_OF"

// commandTimeout bounds every command.
const commandTimeout = 10 * time.Minute

// Sandbox is a place in which to run the program.
type Sandbox struct {
	Program string
	// Dir is the working folder, Undo the undo directory (made by the program),
	// State everything else the program may write.
	Dir, Undo, State string
	// Env is added to the environment of every command.
	Env []string
	// Vars are, too; they stay where a test sets Env again.
	Vars []string
	// Flags are given to every command.
	Flags  []string
	base   string
	id     string
	before mounts
}

// Program returns the path of bin/sandbox, or of another program beside it. It
// ends the test if it is not there.
func Program(t testing.TB, name string) string {
	t.Helper()
	if path := os.Getenv("SANDBOX_BIN"); path != "" && name == "sandbox" {
		return path
	}
	path := filepath.Join(Module(t), "bin", name)
	if _, err := os.Stat(path); err != nil {
		require.Missing(t, path, "make build (or, for fault injection, tests/run.sh)")
	}
	return path
}

// Module returns the directory of go.mod.
func Module(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("not inside the module")
		}
		dir = filepath.Dir(dir)
	}
}

// New makes a Sandbox whose folder fill (which may be nil) has filled. It needs
// what a jail with a bridge needs.
func New(t testing.TB, fill func(t testing.TB, root string)) *Sandbox {
	t.Helper()
	require.FUSE(t)
	require.UserNamespaces(t)
	return newSandbox(t, Program(t, "sandbox"), fill)
}

// NewFaulty is New with the program that has fault injection built in.
func NewFaulty(t testing.TB, fill func(t testing.TB, root string)) *Sandbox {
	t.Helper()
	require.FUSE(t)
	require.UserNamespaces(t)
	return newSandbox(t, Program(t, "sandbox-faults"), fill)
}

func newSandbox(t testing.TB, program string, fill func(t testing.TB, root string)) *Sandbox {
	t.Helper()
	// Not t.TempDir: sockets' paths are short, and the test's name is not. And
	// not below /tmp, of which every jail has its own.
	base, err := os.MkdirTemp("/var/tmp", "sbt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && os.Getenv("SANDBOX_TEST_KEEP") != "" {
			t.Logf("kept: %s", base)
			return
		}
		removeAll(t, base)
	})
	s := &Sandbox{
		Program: program, base: base, id: filepath.Base(base),
		Dir: filepath.Join(base, "work"), Undo: filepath.Join(base, "undo"), State: filepath.Join(base, "s"),
		before: readMounts(t),
	}
	for _, dir := range []string{s.Dir, s.State, filepath.Join(s.State, "home"), filepath.Join(s.State, "run"), filepath.Join(s.State, "tmp")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(s.State, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	if fill != nil {
		fill(t, s.Dir)
	}
	return s
}

// removeAll removes a tree in which directories may forbid it.
func removeAll(t testing.TB, base string) {
	t.Helper()
	_ = filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(base); err != nil {
		t.Errorf("clean up: %v", err)
	}
}

func (s *Sandbox) environ() []string {
	env := []string{
		marker + "=" + s.id,
		"HOME=" + filepath.Join(s.State, "home"),
		"XDG_STATE_HOME=" + filepath.Join(s.State, "home", "state"),
		"XDG_CONFIG_HOME=" + filepath.Join(s.State, "home", "config"),
		"XDG_CACHE_HOME=" + filepath.Join(s.State, "home", "cache"),
		"XDG_RUNTIME_DIR=" + filepath.Join(s.State, "run"),
		"TMPDIR=" + filepath.Join(s.State, "tmp"),
		"LC_ALL=C.UTF-8",
		"PATH=" + os.Getenv("PATH"),
	}
	for _, key := range []string{"USER", "LOGNAME", "GORACE"} {
		if v, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+v)
		}
	}
	return append(append(env, s.Vars...), s.Env...)
}

// Command prepares "sandbox args..." with the flags of this Sandbox: args[0] is
// the subcommand. Its working directory is the working folder.
func (s *Sandbox) Command(ctx context.Context, args ...string) *exec.Cmd {
	full := append([]string{args[0], "--working-dir", s.Dir, "--undo-dir", s.Undo}, s.Flags...)
	return s.Bare(ctx, append(full, args[1:]...)...)
}

// Bare is Command without any flags that are not in args.
func (s *Sandbox) Bare(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Program, args...)
	cmd.Dir = s.Dir
	cmd.Env = s.environ()
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// Result is how a command ended.
type Result struct {
	Stdout, Stderr string
	Code           int // 128+n when signal n ended it
	Took           time.Duration
}

// Do runs "sandbox args..." to its end.
func (s *Sandbox) Do(t testing.TB, args ...string) Result {
	t.Helper()
	return s.DoInput(t, nil, args...)
}

// DoInput is Do with an input.
func (s *Sandbox) DoInput(t testing.TB, stdin io.Reader, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	cmd := s.Command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("sandbox %q did not end within %v\nstdout: %s\nstderr: %s", args, commandTimeout, &stdout, &stderr)
	}
	return Result{stdout.String(), stderr.String(), ExitCode(t, err), time.Since(start)}
}

// ExitCode turns what Wait returned into a shell's status.
func ExitCode(t testing.TB, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal())
		}
		return exit.ExitCode()
	}
	t.Fatalf("sandbox could not be started: %v", err)
	return 0
}

// Must is Do for what must succeed.
func (s *Sandbox) Must(t testing.TB, args ...string) Result {
	t.Helper()
	r := s.Do(t, args...)
	if r.Code != 0 {
		t.Fatalf("sandbox %q: exit status %d\nstdout: %s\nstderr: %s", args, r.Code, r.Stdout, r.Stderr)
	}
	return r
}

// Run runs a shell script as one step, which must succeed.
func (s *Sandbox) Run(t testing.TB, script string) Result {
	t.Helper()
	return s.Must(t, "run", "--", "sh", "-ec", script)
}

// Step is an entry of the history, as history --json prints it.
type Step struct {
	StepID        int64    `json:"step_id"`
	Type          string   `json:"type"`
	Command       string   `json:"command"`
	Status        string   `json:"status"`
	ExitCode      *int     `json:"exit_code"`
	AffectedPaths []string `json:"affected_paths"`
	AffectedCount int      `json:"affected_count"`
	Unprotected   bool     `json:"unprotected"`
	Damaged       string   `json:"damaged"`
	StoredBytes   int64    `json:"stored_bytes"`
	Barriers      []struct {
		Paths []string `json:"paths"`
	} `json:"barriers"`
}

// History returns the history, newest first.
func (s *Sandbox) History(t testing.TB) []Step {
	t.Helper()
	r := s.Must(t, "history", "--json")
	var steps []Step
	if err := json.Unmarshal([]byte(r.Stdout), &steps); err != nil {
		t.Fatalf("history --json: %v\n%s", err, r.Stdout)
	}
	return steps
}

// Snapshot records the working folder.
func (s *Sandbox) Snapshot(t testing.TB) *treesnap.Snapshot {
	t.Helper()
	return treesnap.MustTake(t, s.Dir)
}

// CheckResidue fails the test if a process, a mount, a socket or a temporary
// file of this Sandbox is left. It waits for processes to be reaped for at most
// five seconds: a killed supervisor's children die by themselves.
func (s *Sandbox) CheckResidue(t testing.TB) {
	t.Helper()
	s.WaitGone(t)
	if now := readMounts(t); len(now) != len(s.before) {
		for m := range now {
			if !s.before[m] && strings.Contains(m, s.base) {
				t.Errorf("mount left: %s", m)
			}
		}
	}
	for _, dir := range []string{"run", "tmp"} {
		var left []string
		_ = filepath.WalkDir(filepath.Join(s.State, dir), func(path string, d fs.DirEntry, err error) error {
			// The program's own empty directory may stay.
			if err == nil && !d.IsDir() {
				left = append(left, path)
			}
			return nil
		})
		if len(left) > 0 {
			t.Errorf("files left: %q", left)
		}
	}
}

// WaitGone returns when no process of this Sandbox is left, and fails the test
// when that takes more than five seconds.
func (s *Sandbox) WaitGone(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		pids := s.processes()
		if len(pids) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("processes left: %s", strings.Join(pids, "; "))
			return
		}
		waitAny(pids, 50*time.Millisecond)
	}
}

// waitAny returns when the first of the processes has ended, or after d.
func waitAny(pids []string, d time.Duration) {
	var pid int
	if _, err := fmt.Sscanf(pids[0], "%d", &pid); err != nil {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(d.Milliseconds()))
}

// processes lists what runs with the marker of this Sandbox, or sees its folder
// in a mount namespace of its own, as "pid command".
func (s *Sandbox) processes() []string {
	entries, _ := os.ReadDir("/proc")
	own, _ := os.Readlink("/proc/self/ns/mnt")
	var found []string
	for _, e := range entries {
		if e.Name()[0] < '1' || e.Name()[0] > '9' {
			continue
		}
		proc := "/proc/" + e.Name()
		env, _ := os.ReadFile(proc + "/environ")
		if !bytes.Contains(env, []byte(marker+"="+s.id+"\x00")) {
			if ns, err := os.Readlink(proc + "/ns/mnt"); err != nil || ns == own {
				continue
			}
			if m, _ := os.ReadFile(proc + "/mountinfo"); !bytes.Contains(m, []byte(s.base)) {
				continue
			}
		}
		cmdline, _ := os.ReadFile(proc + "/cmdline")
		found = append(found, e.Name()+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
	}
	return found
}

// mounts are lines of mountinfo without their numbers.
type mounts map[string]bool

func readMounts(t testing.TB) mounts {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	m := mounts{}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 5 {
			m[strings.Join(f[3:], " ")] = true
		}
	}
	return m
}
