package mix

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// place is where histories are tried.
type place struct {
	base    string   // a directory of the file system for the folder
	apart   string   // one of another file system, for the log; "": it lies beside the folder
	flags   []string // of each run
	program string
	mutator string        // this test binary, where a jail shows it
	going   bool          // a kill ends all that is inside, so that a command need not wait for it
	takes   time.Duration // what one command may take
}

// folder is a folder with a history. states[i] is the tree after i steps, of which now are done.
type folder struct {
	place
	dir, env string
	states   []*treesnap.Snapshot
	now      int
	unsure   bool // whether there is still something to redo: a command that changed nothing may have begun to
	log      strings.Builder
}

// broken is what a history fails with.
type broken struct{ error }

func (f *folder) fail(format string, args ...any) { panic(broken{fmt.Errorf(format, args...)}) }

// try plays a history in an empty folder. It returns what was done, and the error that it fails with.
func (p place) try(list []event) (log string, err error) {
	base, err := os.MkdirTemp(p.base, "m")
	if err != nil {
		return "", err
	}
	f := &folder{place: p, dir: filepath.Join(base, "work"), env: filepath.Join(base, "state")}
	if p.apart != "" {
		if f.env, err = os.MkdirTemp(p.apart, "m"); err != nil {
			return "", err
		}
	}
	defer func() {
		switch x := recover().(type) {
		case nil:
		case broken:
			err = x
		default:
			panic(x)
		}
		log = f.log.String()
		err = firstOf(err, remove(base), remove(f.env))
	}()
	if err := os.Mkdir(f.dir, 0o755); err != nil {
		return "", err
	}
	f.states = []*treesnap.Snapshot{f.take()}
	for i, e := range list {
		fmt.Fprintf(&f.log, "%s\n", e)
		f.play(e, i == 0)
	}
	return "", nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// remove removes a tree, whatever its directories allow.
func remove(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

func (f *folder) play(e event, first bool) {
	if (e.what == "undo" || e.what == "restore") && f.now == 0 || e.what == "redo" && f.now == len(f.states)-1 {
		e.what, e.n = "run", 10
	}
	switch e.what {
	case "run":
		f.run(e, first)
	case "kill":
		f.kill(e)
	case "undo":
		f.undo(min(e.n, f.now))
	case "end":
		for n := 1; f.now > 0; n = n%3 + 1 {
			f.undo(min(n, f.now))
		}
	case "redo":
		f.redo(min(e.n, len(f.states)-1-f.now))
	case "pack":
		f.do(nil, "gc", "--compress-all")
		f.same("packing", f.states[f.now])
	case "look":
		f.look()
	case "restore":
		f.restore(e)
	}
}

// take is the tree as it is.
func (f *folder) take() *treesnap.Snapshot {
	s, err := treesnap.Take(f.dir)
	if err != nil {
		f.fail("read the folder: %w", err)
	}
	return s
}

// same fails unless the tree is as it was.
func (f *folder) same(what string, want *treesnap.Snapshot) {
	if d := treesnap.Different(want, f.take()); len(d) > 0 {
		f.fail("after %s the tree is another: %d differences\n  %s", what, len(d), strings.Join(d[:min(len(d), 20)], "\n  "))
	}
}

func (f *folder) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, f.program, args...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+f.env)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// result is how a command ended.
type result struct {
	out, err string
	code     int
}

// do runs the program, which must end with 0 or one of codes.
func (f *folder) do(codes []int, args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), f.takes)
	defer cancel()
	cmd := f.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	fmt.Fprintf(&f.log, "    sandbox %q: %d\n%s", args, r.code, indented(r.err))
	switch {
	case ctx.Err() != nil:
		f.fail("sandbox %q did not end within %v", args, f.takes)
	case err != nil && !slices.Contains(codes, r.code):
		f.fail("sandbox %q: %v\n%s%s", args, err, r.out, r.err)
	}
	return r
}

func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("        " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

// stepped finds what a run says when it has made a step.
var stepped = regexp.MustCompile(`(?m)^step \d+: `)

func (f *folder) mutate(e event, hold int) []string {
	return []string{f.mutator, "mutate", strconv.FormatUint(e.seed, 10), strconv.Itoa(e.n), joined(e.out), strconv.Itoa(hold)}
}

// run runs a command, outside if it is the first.
func (f *folder) run(e event, first bool) {
	args := f.mutate(e, 0)
	if first {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = f.dir
		out, err := cmd.CombinedOutput()
		f.log.WriteString(indented(string(out)))
		if err != nil {
			f.fail("outside: %w\n%s", err, out)
		}
		f.states[0] = f.take()
		return
	}
	r := f.do(nil, slices.Concat([]string{"run"}, f.flags, []string{"--"}, args)...)
	f.log.WriteString(indented(r.out))
	if !stepped.MatchString(r.err) {
		f.same("a command that made no step", f.states[f.now])
		f.unsure = true
		return
	}
	f.stepDone()
}

// stepDone notes that there is one more step, after which there is none.
func (f *folder) stepDone() {
	f.states = append(f.states[:f.now+1], f.take())
	f.now++
	f.unsure = false
}

// kill kills a session, and has the step that was open taken back.
func (f *folder) kill(e event) {
	ctx, cancel := context.WithTimeout(context.Background(), f.takes)
	defer cancel()
	hold := e.at
	if !f.going {
		hold = e.n
	}
	cmd := f.command(ctx, slices.Concat([]string{"run"}, f.flags, []string{"--"}, f.mutate(e, hold))...)
	in, err := cmd.StdinPipe()
	if err != nil {
		f.fail("%w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		f.fail("%w", err)
	}
	defer r.Close()
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &stderr
	if err := cmd.Start(); err != nil {
		f.fail("%w", err)
	}
	_ = w.Close()
	lines := bufio.NewScanner(r)
	for lines.Scan() && lines.Text() != "held" {
		f.log.WriteString(indented(lines.Text()))
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	_ = in.Close() // ends what is left of it
	rest, _ := io.ReadAll(r)
	fmt.Fprintf(&f.log, "%s    killed\n%s", indented(string(rest)), indented(stderr.String()))
	f.recovered(e, f.take())
}

// recovered has the step that a kill has left open taken back. cut is the tree as it was left.
func (f *folder) recovered(e event, cut *treesnap.Snapshot) {
	if e.then == "look" {
		f.lookAt(cut)
	}
	changed := len(treesnap.Different(f.states[f.now], cut)) > 0
	if e.then == "run" || !changed {
		f.do(nil, slices.Concat([]string{"run"}, f.flags, []string{"--", "true"})...)
	} else {
		f.do(nil, "undo")
	}
	f.same("a kill", f.states[f.now])
	f.states = f.states[:f.now+1]
	if !changed { // there may have been no step: an undo would be that of another, and a redo, too
		return
	}
	f.do(nil, "redo")
	f.same("a redo of what was killed", cut)
	f.do(nil, "undo")
	f.same("its undo", f.states[f.now])
	f.states, f.unsure = append(f.states, cut), false
}

func (f *folder) undo(n int) {
	f.do(nil, "undo", strconv.Itoa(n))
	f.now -= n
	f.same(fmt.Sprintf("an undo of %d", n), f.states[f.now])
}

func (f *folder) redo(n int) {
	for ; n > 0; n-- {
		codes := []int(nil)
		if f.unsure {
			codes = []int{1}
		}
		if r := f.do(codes, "redo"); r.code == 1 && strings.Contains(r.err, "nothing to redo") {
			f.states, f.unsure = f.states[:f.now+1], false
			f.same("a redo of nothing", f.states[f.now])
			return
		} else if r.code != 0 {
			f.fail("redo: %s", r.err)
		}
		f.now++
		f.same("a redo", f.states[f.now])
	}
}

func (f *folder) look() { f.lookAt(f.states[f.now]) }

// lookAt asks for all that only looks.
func (f *folder) lookAt(tree *treesnap.Snapshot) {
	for _, c := range []string{"history", "diff", "status", "show"} {
		f.do([]int{1}, c)
	}
	f.same("looks", tree)
}

// steps are the numbers of the steps in the history, the newest first.
func (f *folder) steps() (ids []int64) {
	var steps []struct {
		ID int64 `json:"step_id"`
	}
	if err := json.Unmarshal([]byte(f.do(nil, "history", "--json").out), &steps); err != nil {
		f.fail("history --json: %w", err)
	}
	for _, s := range steps {
		ids = append(ids, s.ID)
	}
	return ids
}

// refusals are what a restore says of what it cannot do.
var refusals = regexp.MustCompile(`did not exist then|does not exist now|was not then|would take away what was somewhere else then`)

// restore restores all, or what is at one path, to what it was before one of the last three steps.
func (f *folder) restore(e event) {
	ids := f.steps()
	if len(ids) != f.now {
		f.fail("the history has %d steps, and %d were made:\n%s", len(ids), f.now, f.do(nil, "history").out)
	}
	back := int(e.seed % uint64(min(f.now, 3)))
	was, is := f.states[f.now-1-back], f.states[f.now]
	path := "."
	if e.seed/3%2 == 1 {
		paths := slices.Sorted(maps.Keys(was.Entries))
		path = paths[int(e.seed/6)%len(paths)]
	}
	r := f.do([]int{1, 3}, "restore", "--step", strconv.FormatInt(ids[back], 10), "--", path)
	if r.code != 0 {
		if path == "." || !refusals.MatchString(r.err) {
			f.fail("restore: %s", r.err)
		}
		f.same("a restore that is refused", is)
		return
	}
	if path == "." {
		f.same("a restore of all", was)
	} else {
		f.restored(path, was, is)
	}
	if len(f.steps()) > len(ids) {
		f.stepDone()
	} else {
		f.same("a restore that made no step", is)
	}
}

// restored fails unless what is at path, and in it, is as it was, and the rest as it is, but for the directory that path is in. What has several names
// may change by another one of them.
func (f *folder) restored(path string, was, is *treesnap.Snapshot) {
	in := func(p string) bool { return p == path || strings.HasPrefix(p, path+"/") }
	got := f.take()
	several := map[string]bool{}
	alone := func(s *treesnap.Snapshot) *treesnap.Snapshot {
		c := &treesnap.Snapshot{Entries: maps.Clone(s.Entries)}
		for p, e := range c.Entries {
			several[p] = several[p] || e.Group != ""
			e.Group = ""
			c.Entries[p] = e
		}
		return c
	}
	was, is, now := alone(was), alone(is), alone(got)
	d := slices.Concat(
		treesnap.Diff(was, now, treesnap.Options{IgnoreLinks: true, Exclude: func(p string) bool { return !in(p) }}),
		treesnap.Diff(is, now, treesnap.Options{IgnoreLinks: true, Exclude: func(p string) bool { return in(p) || several[p] || p == filepath.Dir(path) }}))
	if len(d) > 0 {
		f.fail("after a restore of %q the tree is another: %d differences\n  %s", path, len(d), strings.Join(d[:min(len(d), 20)], "\n  "))
	}
}
