package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/tests/bench/internal/atonce"
	"github.com/codeagent/sandbox/tests/bench/internal/phases"
	"github.com/codeagent/sandbox/tests/bench/internal/report"
	"github.com/codeagent/sandbox/tests/kit/direct"
)

// emptyStep measures opening and closing a step in which nothing happens, in
// the log behind a bridge, beside the whole tree.
func emptyStep(ctx context.Context, l *lab, r *report.Report) error {
	dir, err := l.populated(ctx, "empty.d")
	if err != nil {
		return err
	}
	mount := filepath.Join(l.scratch, "empty")
	if err := os.Mkdir(mount, 0o755); err != nil {
		return err
	}
	s, err := direct.Open(ctx, direct.Options{Dir: dir, Undo: filepath.Join(l.dir, "empty.undo"), Mount: mount})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := command(ctx, mount, "find", ".", "-size", "+0"); err != nil { // all known to the bridge
		return err
	}
	var took []time.Duration
	for range 101 {
		start := time.Now()
		if _, err := s.Step(ctx, "true", func() error { return nil }); err != nil {
			return err
		}
		took = append(took, time.Since(start))
	}
	r.Value("step", "opened and closed with nothing changed", report.MS(report.Median(took)), "ms", 1)
	return nil
}

// program returns the path of bin/sandbox.
func program() (string, error) {
	path, err := filepath.Abs("bin/sandbox")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("no bin/sandbox here (%w): run make build, in the module's root", err)
	}
	return path, nil
}

// sandboxRun prepares a run of the program.
func sandboxRun(ctx context.Context, l *lab, bin, dir string, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, bin, append([]string{"run", "--working-dir", dir, "--undo-dir", dir + ".undo", "--"}, argv...)...)
	cmd.Dir = dir
	cmd.Env = append(environ(), "XDG_RUNTIME_DIR="+l.scratch, "XDG_STATE_HOME="+l.scratch)
	return cmd
}

// removed is how many files are removed to see how much memory that takes.
const removed = 100_000

// benchMemory looks at the supervisor's memory while a command removes many
// files.
func benchMemory(ctx context.Context, l *lab, r *report.Report, _ int) error {
	bin, err := program()
	if err != nil {
		return err
	}
	dir, err := l.sub("many")
	if err != nil {
		return err
	}
	for i := range removed {
		sub := filepath.Join(dir, "d", strconv.Itoa(i/200))
		if i%200 == 0 {
			if err := os.MkdirAll(sub, 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(sub, "file-"+strconv.Itoa(i)), []byte("content\n"), 0o644); err != nil {
			return err
		}
	}
	cmd := sandboxRun(ctx, l, bin, dir, "rm", "-rf", "d")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	peak := 0
	for {
		select {
		case err := <-ended:
			r.Value("memory", fmt.Sprintf("supervisor's peak during rm -rf of %d files", removed), float64(peak)/1024, "MiB", 150*1e6/(1<<20))
			r.Value("memory", "that took", report.MS(time.Since(start)), "ms", 0)
			if err != nil {
				err = fmt.Errorf("%w: %s", err, lastLine(stderr.Bytes()))
			}
			return err
		case <-time.After(5 * time.Millisecond):
			peak = max(peak, statusKiB(cmd.Process.Pid, "VmHWM"))
		}
	}
}

// statusKiB reads a line of /proc/PID/status.
func statusKiB(pid int, key string) int { return memoryKiB(pid, "status", key) }

// memoryKiB reads a line of one of a process's files in /proc.
func memoryKiB(pid int, file, key string) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == key+":" {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}

// benchStart compares the jail's start with bubblewrap's, of /bin/true.
func benchStart(ctx context.Context, l *lab, r *report.Report, rounds int) error {
	j := newJail()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		r.Missing("start", "bubblewrap", errors.New("apt-get install bubblewrap"))
	}
	bin, err := program()
	if err != nil {
		return err
	}
	dir, err := l.sub("start")
	if err != nil {
		return err
	}
	lives, end, err := liveSession(ctx, l, bin, "joined", "")
	if err != nil {
		return err
	}
	defer end()
	configured, end, err := liveSession(ctx, l, bin, "configured", "[limits]\npids = 1000\n")
	if err != nil {
		return err
	}
	defer end()
	var ours, theirs, whole, joined, changing, ruled []time.Duration
	measure := func(list *[]time.Duration, f func() error) error {
		start := time.Now()
		err := f()
		*list = append(*list, time.Since(start))
		return err
	}
	for range 10 * rounds {
		err := errors.Join(
			measure(&ours, func() error { return jailTrue(ctx, j) }),
			measure(&whole, func() error {
				out, err := sandboxRun(ctx, l, bin, dir, "/bin/true").CombinedOutput()
				if err != nil {
					err = fmt.Errorf("%w: %s", err, lastLine(out))
				}
				return err
			}),
			measure(&joined, func() error { return sandboxRun(ctx, l, bin, lives, "/bin/true").Run() }),
			measure(&changing, func() error { return sandboxRun(ctx, l, bin, lives, "/bin/touch", "changed").Run() }),
			measure(&ruled, func() error { return sandboxRun(ctx, l, bin, configured, "/bin/true").Run() }))
		if err == nil && bwrap != "" {
			err = measure(&theirs, func() error {
				return exec.CommandContext(ctx, bwrap, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/",
					"--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "/bin/true").Run()
			})
		}
		if err != nil {
			return err
		}
	}
	inside, outside, err := atonce.Compare(rounds, func() *exec.Cmd { return sandboxRun(ctx, l, bin, lives, atonce.Work...) },
		func() *exec.Cmd { return exec.CommandContext(ctx, atonce.Work[0], atonce.Work[1:]...) })
	if err != nil {
		return err
	}
	r.Ratio("start", fmt.Sprintf("%d commands at once that join a session / natively", atonce.Commands), inside, outside, 1.3)
	if bwrap != "" {
		r.Ratio("start", "jail with /bin/true, to its end / bubblewrap", ours, theirs, 1.2)
		r.Ratio("start", "sandbox run -- /bin/true that joins a session / bubblewrap", joined, theirs, 1.2)
		r.Ratio("start", "the same in a project with a codeagent.toml / bubblewrap", ruled, theirs, 0)
		r.Ratio("start", "sandbox run -- /bin/touch that joins a session and changes a file / bubblewrap", changing, theirs, 0)
		r.Ratio("start", "sandbox run -- /bin/true without a session / bubblewrap", whole, theirs, 2)
	}
	r.Value("start", "sandbox run -- /bin/true", report.MS(report.Median(whole)), "ms", 0)
	return startPhases(ctx, l, r, 5*rounds)
}

// liveSession starts a session in the background, in a folder with this configuration if it is not empty. End stops it.
func liveSession(ctx context.Context, l *lab, bin, name, config string) (dir string, end func(), err error) {
	if dir, err = l.sub(name); err != nil {
		return "", nil, err
	}
	if config != "" {
		file := filepath.Join(dir, "codeagent.toml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			return "", nil, err
		}
		time.Sleep(stampSettles)
	}
	live := func(word string) *exec.Cmd {
		cmd := sandboxRun(ctx, l, bin, dir)
		cmd.Args = []string{bin, word, "--undo-dir", dir + ".undo"}
		return cmd
	}
	if out, err := live("start").CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("sandbox start: %w: %s", err, lastLine(out))
	}
	return dir, func() { _ = live("stop").Run() }, nil // the figures are there
}

// stampSettles is how long a file of configuration is too new for a caller to take its stamp for its content.
const stampSettles = 200 * time.Millisecond

// startPhases says where the time of "sandbox run" goes that starts a session.
func startPhases(ctx context.Context, l *lab, r *report.Report, times int) error {
	bin, err := program()
	if err != nil {
		return err
	}
	dir, err := l.sub("phases")
	if err != nil {
		return err
	}
	list, err := phases.Measure(times, func() *exec.Cmd {
		cmd := sandboxRun(ctx, l, bin, dir, "/bin/true")
		cmd.Args = slices.Insert(cmd.Args, 2, "--log-level", "debug", "--log-format", "json")
		return cmd
	})
	for _, p := range list {
		r.Value("start", "of that: "+p.Name, report.MS(report.Median(p.Took)), "ms", 0)
	}
	return err
}

// jailTrue starts a jail, runs /bin/true in it and stops it.
func jailTrue(ctx context.Context, j *jail.Runtime) error {
	g, err := j.Start(ctx, hypervisor.Config{SessionID: "bench", UID: -1, GID: -1})
	if err != nil {
		return err
	}
	p, err := g.Exec(ctx, hypervisor.Command{ID: 1, Argv: []string{"/bin/true"}, Dir: "/"})
	if err == nil {
		_, err = p.Wait(ctx)
	}
	return errors.Join(err, g.Stop(ctx))
}

// benchHotPath runs the Interceptor's own benchmark of an operation on what is
// captured already.
func benchHotPath(ctx context.Context, _ *lab, r *report.Report, _ int) error {
	out, err := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench=HotPath", "-benchmem", "./actors/interceptor").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go test -bench: %w: %s", err, lastLine(out))
	}
	line := regexp.MustCompile(`(?m)^Benchmark(\S+)\s+\d+\s+([\d.]+) ns/op.*?\s(\d+) allocs/op`)
	found := line.FindAllStringSubmatch(string(out), -1)
	if len(found) == 0 {
		return fmt.Errorf("no benchmark in: %s", out)
	}
	for _, m := range found {
		ns, _ := strconv.ParseFloat(m[2], 64)
		allocs, _ := strconv.ParseFloat(m[3], 64)
		r.Value("hot path", m[1], ns, "ns", 200)
		r.Add(report.Row{Group: "hot path", Name: m[1] + ", allocations", Value: allocs, Unit: "allocations", Goal: 0.5})
	}
	return nil
}

// benchInit lists the packages whose initialisation takes longest: every start
// of the program pays for them.
func benchInit(ctx context.Context, _ *lab, r *report.Report, _ int) error {
	bin, err := program()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, bin, "version")
	cmd.Env = append(environ(), "GODEBUG=inittrace=1")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	type pkg struct {
		name string
		ms   float64
	}
	var list []pkg
	sum := 0.0
	for s := bufio.NewScanner(stderr); s.Scan(); {
		f := strings.Fields(s.Text()) // init NAME @1.2 ms, 0.34 ms clock, ...
		if len(f) > 4 && f[0] == "init" {
			took, _ := strconv.ParseFloat(f[4], 64)
			list = append(list, pkg{f[1], took})
			sum += took
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].ms > list[j].ms })
	for _, p := range slices.Clip(list)[:min(10, len(list))] {
		r.Value("initialisation (top ten)", p.name, p.ms, "ms", 0)
	}
	r.Value("initialisation (top ten)", "all of them", sum, "ms", 0)
	return cmd.Wait()
}
