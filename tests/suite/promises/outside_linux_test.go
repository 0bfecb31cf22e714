package promises

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/screen"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// ended is a session that has ended, and what things were like before.
type ended struct {
	*place
	folder, outside *treesnap.Snapshot
	homes           []*treesnap.Snapshot
}

// do runs the program to its end.
func (p *place) do(args ...string) (string, error) {
	cmd := p.command(args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("sandbox %q: %w: %s%s", args, err, out, &said)
	}
	return string(out), err
}

// steps are those of the folder's history.
func (p *place) steps() (steps []drive.Step, err error) {
	text, err := p.do("history", "--json")
	if err == nil {
		err = json.Unmarshal([]byte(text), &steps)
	}
	if err == nil && len(steps) == 0 {
		err = errors.New("no steps")
	}
	return steps, err
}

// undone takes the session's steps back.
func undone(e *ended) error {
	steps, err := e.steps()
	if err != nil {
		return err
	}
	if _, err := e.do("undo", strconv.Itoa(len(steps))); err != nil {
		return err
	}
	return same(e.folder, e.Work)
}

// same compares a tree with what it was.
func same(before *treesnap.Snapshot, dir string) error {
	now, err := treesnap.Take(dir)
	if err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return err
	}
	o := treesnap.Options{IgnoreLinks: true, IgnoreMtime: fs.Type == unix.OVERLAYFS_SUPER_MAGIC} // docs/filesystems.md
	if diff := treesnap.Diff(before, now, o); len(diff) > 0 {
		return errors.New(strings.Join(diff, "; "))
	}
	return nil
}

// unharmed looks at what lies outside, and whether anything came out of the named pipe.
func unharmed(e *ended) error { return same(e.outside, e.Outside) }

func homesUnharmed(e *ended) error {
	var all []error
	for i, home := range e.Homes {
		all = append(all, same(e.homes[i], home+"/notes"))
		for _, made := range []string{"/new", "/moved-0", "/log/new", "/.local/state/sandbox/new", "/.local/state/sandbox/undo/other-2/new"} {
			if _, err := os.Lstat(home + made); err == nil {
				all = append(all, errors.New(home+made))
			}
		}
	}
	return errors.Join(all...)
}

// alive looks whether the process outside is as it was.
func alive(e *ended) error {
	var limit unix.Rlimit
	err := errors.Join(unix.Kill(e.PID, 0), unix.Prlimit(e.PID, unix.RLIMIT_NOFILE, nil, &limit))
	if b, rerr := os.ReadFile(fmt.Sprintf("/proc/%d/stat", e.PID)); rerr != nil || !strings.Contains(string(b), ") S ") {
		err = errors.Join(err, rerr, fmt.Errorf("the process outside: %s", b))
	}
	if limit.Cur == 1 {
		err = errors.Join(err, errors.New("it was limited"))
	}
	return err
}

func refusesDirectory(e *ended) error {
	dir, err := os.Open(e.Outside)
	if err != nil {
		return err
	}
	defer dir.Close()
	run := append([]string{"run"}, e.flags()...)
	if e.Cell.Command != "first" {
		if out, err := e.bare(append([]string{"start"}, e.flags()...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		defer func() { _ = e.bare("stop").Run() }()
		run = run[:1]
	}
	if e.Cell.Command == "service" { // which has no standard input: it does not get this one
		run = append(run, "--service", "reader")
	}
	cmd := e.bare(append(run, "--", "sh", "-c", "cat /dev/stdin/hidden /dev/stdin/file; ls -l /dev/stdin/; echo started")...)
	cmd.Stdin = dir
	out, err := cmd.CombinedOutput()
	if e.Cell.Command == "service" {
		return errors.Join(err, e.knowsNothing())
	}
	if err == nil || strings.Contains(string(out), "started\n") || !strings.Contains(string(out), "standard input") {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// knowsNothing looks at what a service could read of the directory that its caller had as standard input.
func (p *place) knowsNothing() error {
	var out []byte
	var err error
	actortest.Eventually(p.t, "the service to say what it has read", func() bool {
		out, err = p.bare("service", "output", "reader").Output()
		return err != nil || strings.Contains(string(out), "started\n")
	})
	if err == nil && (strings.Contains(string(out), "host file") || strings.Contains(string(out), "victim") || strings.Contains(string(out), treasure)) {
		err = fmt.Errorf("a service has read: %s", out)
	}
	return err
}

// nothingPlanted looks at what git, shells and editors would run.
func nothingPlanted(e *ended) error {
	var all []error
	err := filepath.WalkDir(e.Work, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(e.Work, path)
		first, _, _ := strings.Cut(rel, "/")
		read := first == ".husky" || first == ".envrc" || first == ".bashrc" || first == ".vscode" || first == "shared.cfg" || strings.Contains("/"+rel+"/", "/.git/")
		if err != nil || d.IsDir() || !read {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), "evil") {
			all = append(all, errors.New(rel))
		}
		return err
	})
	return errors.Join(append(all, err)...)
}

// stepOf are the newest steps that have changed two paths. Those of a service lie between commands, and may be several.
func (p *place) stepOf(one, other string) (id, otherID string, err error) {
	steps, err := p.steps()
	for _, s := range slices.Backward(steps) { // the newest is the first one
		if slices.Contains(s.AffectedPaths, one) {
			id = strconv.FormatInt(s.StepID, 10)
		}
		if slices.Contains(s.AffectedPaths, other) {
			otherID = strconv.FormatInt(s.StepID, 10)
		}
	}
	if err == nil && (id == "" || otherID == "") {
		err = fmt.Errorf("no step has %q, or none %q: %+v", one, other, steps)
	}
	return id, otherID, err
}

// escaped looks at what the program shows on a terminal.
func escaped(e *ended) error {
	name, mapped, err := e.stepOf("n"+escapes, "mapped")
	if err != nil {
		return err
	}
	var all []error
	for _, args := range [][]string{{"history"}, {"show", name}, {"diff", mapped}, {"cat", e.Work + "/mapped", "--step", mapped, "--after"}} {
		s := screen.On(e.t, e.command(args...))
		if args[0] != "history" {
			s.Expect("evil")
		}
		s.Wait()
		seen := s.Text()
		for _, acts := range []string{"\x1b]0;", "\x1b[2Kevil", "\x07"} {
			if strings.Contains(seen, acts) {
				all = append(all, fmt.Errorf("%q: %q in %q", args, acts, seen))
			}
		}
	}
	return errors.Join(all...)
}

// pageRefuses asks the page's server without its token.
func pageRefuses(e *ended) error {
	cmd := e.bare("ui", "--no-open")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() }()
	var address string
	if _, err := fmt.Fscanln(out, &address); err != nil {
		return fmt.Errorf("%w: %s", err, &said)
	}
	base, token, _ := strings.Cut(address, "/#token=")
	ask := func(method, path string, set func(*http.Request)) (int, error) {
		r, err := http.NewRequestWithContext(e.t.Context(), method, base+path, strings.NewReader("{}"))
		if err != nil {
			return 0, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Sandbox-UI", "1")
		set(r)
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return 0, err
		}
		return a.StatusCode, a.Body.Close()
	}
	bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	var all []error
	for _, try := range []struct {
		name string
		want int
		set  func(*http.Request)
	}{
		{"nothing", http.StatusUnauthorized, func(*http.Request) {}},
		{"a cookie", http.StatusUnauthorized, func(r *http.Request) { r.Header.Set("Cookie", "token="+token+"; sandbox_ui="+token) }},
		{"another token", http.StatusUnauthorized, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.Repeat("A", len(token))) }},
		{"another host", http.StatusForbidden, func(r *http.Request) { bearer(r); r.Host = "evil.example" }},
		{"another origin", http.StatusForbidden, func(r *http.Request) { bearer(r); r.Header.Set("Origin", "http://127.0.0.1:1") }},
		{"the token", http.StatusOK, bearer},
	} {
		if got, err := ask("GET", "/api/overview", try.set); err != nil || got != try.want {
			all = append(all, fmt.Errorf("with %s: %d, %w", try.name, got, err))
		}
		if got, err := ask("POST", "/api/config/user", try.set); try.want != http.StatusOK && (err != nil || got != try.want) {
			all = append(all, fmt.Errorf("with %s: %d, %w", try.name, got, err))
		}
	}
	return errors.Join(all...)
}

// hookQuotes gives shells what the hook made of hostile commands, with a program in its place that says what it was given.
func hookQuotes(e *ended) error {
	program, out := e.base+"/a bin/sandbox", e.base+"/out"
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return err
	}
	if b, err := exec.Command("cp", drive.Program(e.t, "sandbox"), program).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, b)
	}
	made := e.base + "/escaped"
	var all []error
	answers := map[string]string{}
	for _, c := range hostile(made) {
		answer, err := e.hook(program, c)
		all = append(all, err)
		answers[c] = answer
	}
	if err := os.Remove(program); err != nil {
		return err
	}
	put(e.t, program, "#!/bin/sh\nfor a; do printf '%s\\0' \"$a\"; done >'"+out+"'\n")
	if err := os.Chmod(program, 0o755); err != nil {
		return err
	}
	for c, answer := range answers {
		for _, shell := range []string{"sh", "bash"} {
			_ = os.Remove(out)
			cmd := exec.Command(shell, "-c", answer)
			cmd.Dir = e.base
			_ = cmd.Run()
			words, _ := os.ReadFile(out)
			if given := strings.Split(string(words), "\x00"); len(given) < 2 || given[len(given)-2] != c {
				all = append(all, fmt.Errorf("%s: %q became %q: %q", shell, c, answer, given))
			}
			if os.Remove(made) == nil {
				all = append(all, fmt.Errorf("%s: %q ran outside: %q", shell, c, answer))
			}
		}
	}
	return errors.Join(all...)
}

// hostile are commands that would make a file if any quote of them came loose.
func hostile(file string) (out []string) {
	for _, s := range []string{"'; %s; '", "\"; %s; \"", "$(%s)", "`%s`", "a\n%s\n", "\\'; %s #", "'\\''; %s; '", "--; %s", "; %s", "&& %s", "| %s", "\r\n%s", "${IFS}%s", "\u2028%s", "!%s", "<<E\nE\n%s", "\\\n'\n%s",
		"'\"'\"; %s", "$'\\''; %s", "a' 'b; %s", "\t%s\\"} {
		out = append(out, fmt.Sprintf(s, "touch "+file))
	}
	return out
}

// hook asks what a client asks before it runs a command.
func (p *place) hook(program, command string) (string, error) {
	question, err := json.Marshal(map[string]any{"session_id": "s", "cwd": p.base + "/second", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": map[string]string{"command": command}})
	if err != nil {
		return "", err
	}
	cmd := exec.Command(program, "hook", "claude-code")
	given := p.bare("hook")
	var said bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stderr = given.Dir, given.Env, bytes.NewReader(question), &said
	text, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, &said)
	}
	var a struct {
		HookSpecificOutput struct{ UpdatedInput struct{ Command string } }
	}
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err == nil && a.HookSpecificOutput.UpdatedInput.Command == "" {
		err = errors.New("the command is to run as it is")
	}
	return a.HookSpecificOutput.UpdatedInput.Command, err
}
