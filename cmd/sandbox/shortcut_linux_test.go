package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/screen"
)

// pretender stands in for a session: it hears what it is asked, and answers what it is told to.
type pretender struct {
	t    *testing.T
	dir  string // the working folder
	env  []string
	conn chan *net.UnixConn
}

func newPretender(t *testing.T) *pretender {
	t.Helper()
	base, err := os.MkdirTemp("/tmp", "sb") // short, for the socket's sake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	p := &pretender{t: t, dir: filepath.Join(base, "work"), conn: make(chan *net.UnixConn)}
	run := filepath.Join(base, "sandbox")
	for _, dir := range []string{run, p.dir, filepath.Join(p.dir, "sub"), filepath.Join(base, "undo"), filepath.Join(base, "home")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(base, "home"), "XDG_RUNTIME_DIR=" + base, "MY_TOKEN=secret", "LANG=C"}
	socket := filepath.Join(run, "s.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	b, err := json.Marshal(map[string]any{"pid": os.Getpid(), "session": "s", "socket": socket, "directories": []string{p.dir}})
	if err == nil {
		err = os.WriteFile(filepath.Join(run, "s.json"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			p.conn <- c
		}
	}()
	return p
}

// program starts the program in a directory. Its trace says which packages it initialised.
func (p *pretender) program(dir string, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	p.t.Helper()
	return p.given(nil, dir, args...)
}

// given is program with descriptors from 3 on.
func (p *pretender) given(files []*os.File, dir string, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	p.t.Helper()
	cmd = screen.Helper(p.t, "sandbox", args...)
	cmd.ExtraFiles = files
	cmd.Dir = dir
	cmd.Env = append(p.env, screen.HelperVariable+"=sandbox", "GODEBUG=inittrace=1", "GORACE=atexit_sleep_ms=10")
	stderr = &bytes.Buffer{}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	return cmd, stderr
}

// caller is a connection of a program.
type caller struct {
	t    *testing.T
	conn *net.UnixConn
	in   *bufio.Reader
}

func (p *pretender) accept() caller {
	c := <-p.conn
	p.t.Cleanup(func() { c.Close() })
	return caller{p.t, c, bufio.NewReader(c)}
}

// hears reads a request.
func (c caller) hears() (request map[string]any) {
	c.t.Helper()
	line, err := c.in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &request)
	}
	if err != nil {
		c.t.Fatalf("%v: %s", err, line)
	}
	return request
}

func (c caller) says(lines ...string) {
	c.t.Helper()
	for _, l := range lines {
		if _, err := c.conn.Write([]byte(l + "\n")); err != nil {
			c.t.Fatal(err)
		}
	}
}

const (
	saysAccepted = `{"id":1,"part":{"accepted":true}}`
	saysStarted  = `{"id":1,"part":{"started":{"step_id":7,"command_id":3}}}`
	saysEnded    = `{"id":1,"result":{"step_id":7,"exit_code":5,"duration_ns":1000,"outcome":"completed"}}`
)

// said is what a program printed beside the trace, and whether it was initialised as a whole.
func said(stderr *bytes.Buffer) (text string, whole bool) {
	for line := range strings.Lines(stderr.String()) {
		if !strings.HasPrefix(line, "init ") {
			text += line
		}
		whole = whole || strings.HasPrefix(line, "init main ")
	}
	return text, whole
}

// TestShortcutAsksTheSame: the short way asks a session what the long way does, and is initialised by then
// as far as the system's packages.
func TestShortcutAsksTheSame(t *testing.T) {
	p := newPretender(t)
	base := filepath.Dir(p.dir)
	link := filepath.Join(base, "link")
	if err := os.Symlink(p.dir, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir  string
		args []string
	}{
		{p.dir, []string{"--", "true"}},
		{filepath.Join(p.dir, "sub"), []string{"sh", "-c", "echo \"<&>\u2028\t\""}},
		{filepath.Join(link, "sub"), []string{"true", "--", "-x"}},
		{base, []string{"-C", "work", "true"}},
		{base, []string{"--working-dir", link, "true"}},
		{filepath.Join(p.dir, "sub"), []string{"--working-dir=" + p.dir, "--undo-dir", "../../undo", "--keep=10m", "true"}},
		{p.dir, []string{"--undo-dir", filepath.Join(base, "undo"), "--", "true"}},
		{p.dir, []string{"--env", "A=b=c", "--env=MY_TOKEN", "--env", "NOT_THERE", "--env", "LANG=de", "--timeout", "90s", "true"}},
	} {
		var asked []map[string]any
		for _, long := range []bool{false, true} {
			args := append([]string{"run"}, c.args...)
			if long {
				args = append([]string{"run", "--log-level", "warn"}, c.args...)
			}
			cmd, stderr := p.program(c.dir, args...)
			s := p.accept()
			asked = append(asked, s.hears())
			s.says(saysAccepted, saysStarted, saysEnded)
			_ = cmd.Wait()
			text, whole := said(stderr)
			if code := cmd.ProcessState.ExitCode(); code != 5 || text != "" || whole != long {
				t.Errorf("%q: status %d, initialised as a whole: %v: %s", args, code, whole, text)
			}
			if early := strings.Count(stderr.String(), "init "); !long && early > 35 {
				t.Errorf("%q: %d packages are initialised before", args, early)
			}
		}
		if !reflect.DeepEqual(asked[0], asked[1]) {
			t.Errorf("%q asks\n%v\nwant\n%v", c.args, asked[0], asked[1])
		}
	}
}

// TestShortcutTellsTheSame: the short way says of a step's changes what the long way says, with the flags that an undo needs.
func TestShortcutTellsTheSame(t *testing.T) {
	p := newPretender(t)
	base := filepath.Dir(p.dir)
	entry := `"entries":[{"directory":"` + p.dir + `","entry":{"step_id":9,"affected_count":2}}]`
	only := `"only":{"step_id":9,"affected_count":2,"directory":"` + p.dir + `"},`
	ended := func(only string) string {
		return `{"id":1,"result":{"step_id":7,"exit_code":3,"duration_ns":1,"outcome":"completed",` + only + entry + `}}`
	}
	for flags, want := range map[string]string{
		"":                       "undo with: sandbox undo\n",
		"--undo-dir ../undo":     "undo with: sandbox undo --undo-dir ../undo\n",
		"--working-dir ../work":  "undo with: sandbox undo --working-dir " + p.dir + "\n",
		"-C . --undo-dir ../un*": "undo with: sandbox undo --working-dir " + p.dir + " --undo-dir '../un*'\n",
	} {
		if err := os.MkdirAll(filepath.Join(base, "un*"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, long := range []bool{false, true} {
			args := append(append([]string{"run"}, strings.Fields(flags)...), "true")
			cmd, stderr := p.program(p.dir, args...)
			s := p.accept()
			s.hears()
			s.says(saysAccepted, saysStarted)
			if long {
				s.says(ended(""))
			} else {
				s.says(ended(only))
			}
			_ = cmd.Wait()
			text, whole := said(stderr)
			if code := cmd.ProcessState.ExitCode(); code != 3 || text != "step 9: 2 paths changed, "+want || whole != long {
				t.Errorf("%q: status %d, initialised as a whole: %v: %s", args, code, whole, text)
			}
		}
	}
}

// TestShortcutNotTaken: what may mean more than it says goes the long way.
func TestShortcutNotTaken(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(p *pretender) error
		args    []string
	}{
		"a project's file": {prepare: func(p *pretender) error { return os.WriteFile(filepath.Join(p.dir, "codeagent.toml"), nil, 0o600) }},
		"a user's file": {prepare: func(p *pretender) error {
			dir := filepath.Join(filepath.Dir(p.dir), "home", ".config", "codeagent")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "codeagent.toml"), nil, 0o600)
		}},
		"a place that others can read": {prepare: func(p *pretender) error { return os.Chmod(filepath.Join(filepath.Dir(p.dir), "sandbox"), 0o755) }},
		"a list that cannot be decoded": {prepare: func(p *pretender) error {
			return os.WriteFile(filepath.Join(filepath.Dir(p.dir), "sandbox", "x.json"), []byte(`{"x`), 0o600)
		}},
		"JSON":                   {args: []string{"--json"}},
		"bytes that are no text": {args: []string{"--env", "A=\xff"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPretender(t)
			if c.prepare != nil {
				if err := c.prepare(p); err != nil {
					t.Fatal(err)
				}
			}
			cmd, stderr := p.program(p.dir, append(append([]string{"run"}, c.args...), "true")...)
			s := p.accept()
			s.hears()
			s.says(saysAccepted, saysStarted, saysEnded)
			_ = cmd.Wait()
			if _, whole := said(stderr); !whole || cmd.ProcessState.ExitCode() != 5 {
				t.Errorf("initialised as a whole: %v, status %d\n%s", whole, cmd.ProcessState.ExitCode(), stderr)
			}
		})
	}
}

// joins runs a command that joins a session, and tells what it said and whether the program was initialised as a whole.
func (d *desk) joins(args ...string) (text string, whole bool) {
	d.t.Helper()
	cmd := d.sandbox(append([]string{"run"}, args...)...)
	cmd.Env = append(cmd.Env, "GODEBUG=inittrace=1", "GORACE=atexit_sleep_ms=10")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if code := exitOf(d.t, err); code != 3 {
		d.t.Errorf("run %q: status %d\n%s%s", args, code, out, &stderr)
	}
	said, whole := said(&stderr)
	return string(out) + said, whole
}

// TestShortcutConfigured: with the configuration that the session was started with the short way is taken, and does what the long way does; with
// another one, or one that is about the caller, it is not.
func TestShortcutConfigured(t *testing.T) {
	const limits, log = "[limits]\npids = 400\n", "[log]\nlevel = \"error\"\n"
	for name, c := range map[string]struct {
		project, user string
		change        func(project, user string) error // after the start
		short         bool
	}{
		"the project's file":       {project: limits, short: true},
		"the user's file":          {user: limits, short: true},
		"both":                     {project: limits, user: "[limits]\npids = 500\n", short: true},
		"the caller's log":         {project: log},
		"the caller's log, beside": {project: limits, user: log},
		"the same once more": {project: limits, change: func(project, _ string) error {
			return os.WriteFile(project, []byte(limits), 0o600)
		}},
		"another file": {project: limits, change: func(project, _ string) error {
			return errors.Join(os.WriteFile(project+".new", []byte(limits), 0o600), os.Rename(project+".new", project))
		}},
		"a new file":              {project: limits, change: func(_, user string) error { return os.WriteFile(user, nil, 0o600) }},
		"one less":                {project: limits, user: "[limits]\npids = 500\n", change: func(_, user string) error { return os.Remove(user) }},
		"the project's no longer": {project: limits, user: limits, change: func(project, _ string) error { return os.Remove(project) }, short: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			home := filepath.Join(filepath.Dir(d.dir), "home", "codeagent")
			if err := os.MkdirAll(home, 0o755); err != nil {
				t.Fatal(err)
			}
			project, user := filepath.Join(d.dir, "codeagent.toml"), filepath.Join(home, "codeagent.toml")
			for file, text := range map[string]string{project: c.project, user: c.user} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			written := time.Now()
			actortest.Eventually(t, "the files are no longer new", func() bool { return time.Since(written) > 200*time.Millisecond })
			d.live()
			if c.change != nil {
				if err := c.change(project, user); err != nil {
					t.Fatal(err)
				}
			}
			script := []string{"sh", "-c", "id -u; echo x >> changed; exit 3"}
			// The change is an edit from outside. A command that is told of it takes the long way, and no other is told.
			told := 0
			joins := func(args ...string) (text string, whole bool) {
				text, whole = d.joins(args...)
				for ; c.change != nil && told < 3 && strings.Contains(text, "changed outside the sandbox"); told++ {
					text, whole = d.joins(args...)
				}
				return text, whole
			}
			short, whole := joins(script...)
			if whole == c.short {
				t.Errorf("initialised as a whole: %v:\n%s", whole, short)
			}
			long, whole := joins(append([]string{"--log-level", "warn"}, script...)...)
			if number := regexp.MustCompile("step [0-9]+"); !whole || number.ReplaceAllString(short, "step N") != number.ReplaceAllString(long, "step N") || !strings.Contains(long, "changed, undo with") {
				t.Errorf("short:\n%s\nlong:\n%s", short, long)
			}
		})
	}
}

// TestShortcutHandsOver: what has to be told, decided or passed on is done by the program as a whole, on the same
// connection, and the command is not asked for again.
func TestShortcutHandsOver(t *testing.T) {
	for name, c := range map[string]struct {
		answer []string
		code   int
		text   string
	}{
		"an event": {
			[]string{saysAccepted, `{"id":1,"part":{"event":{"Type":"event.warning","message":"early"}}}`, saysStarted, `{"id":1,"part":{"event":{"Type":"event.warning","message":"late"}}}`, saysEnded},
			5, "sandbox: early\nsandbox: late\n",
		},
		"a limit": {
			[]string{saysAccepted, saysStarted, `{"id":1,"result":{"step_id":7,"exit_code":137,"signal":9,"duration_ns":1,"outcome":"completed","limit":"memory"}}`},
			137, "sandbox: a limit was reached: memory\n",
		},
		"changes": {
			[]string{saysAccepted, saysStarted, `{"id":1,"result":{"step_id":7,"exit_code":0,"duration_ns":1,"outcome":"completed","entries":[{"directory":"/w","entry":{"step_id":7,"affected_count":2}}]}}`},
			0, "step 7: 2 paths changed, undo with: sandbox undo\n",
		},
		"a refusal": {[]string{`{"id":1,"error":{"code":"not_given","message":"no"}}`}, 125, "sandbox: no\n"},
		"a wait":    {[]string{saysAccepted, `{"id":1,"part":{"waits":{"step_id":6,"command":"x","commands":9}}}`, saysStarted, saysEnded}, 5, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPretender(t)
			cmd, stderr := p.program(p.dir, "run", "true")
			s := p.accept()
			s.hears()
			s.says(c.answer...)
			_ = cmd.Wait()
			text, whole := said(stderr)
			if code := cmd.ProcessState.ExitCode(); code != c.code || text != c.text || !whole {
				t.Errorf("status %d, initialised as a whole: %v:\n%s\nwant %d:\n%s", code, whole, text, c.code, c.text)
			}
			if more, err := s.in.ReadString('\n'); err == nil {
				t.Errorf("it asked again: %s", more)
			}
		})
	}
	t.Run("a signal", func(t *testing.T) {
		p := newPretender(t)
		cmd, stderr := p.program(p.dir, "run", "true")
		s := p.accept()
		s.hears()
		s.says(saysAccepted, saysStarted)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		asked := s.hears()
		want := map[string]any{"step_id": 7.0, "command_id": 3.0, "signal": 15.0}
		if asked["method"] != "signal" || !reflect.DeepEqual(asked["params"], want) {
			t.Errorf("asked for %v", asked)
		}
		s.says(`{"id":2,"result":{}}`, saysEnded)
		_ = cmd.Wait()
		if text, _ := said(stderr); cmd.ProcessState.ExitCode() != 5 || text != "" {
			t.Errorf("status %d: %s", cmd.ProcessState.ExitCode(), text)
		}
	})
	t.Run("an end before the beginning", func(t *testing.T) {
		p := newPretender(t)
		cmd, stderr := p.program(p.dir, "run", "true")
		s := p.accept()
		s.hears()
		s.conn.Close()
		again := p.accept()
		again.hears()
		again.says(saysAccepted, saysStarted, saysEnded)
		_ = cmd.Wait()
		if text, _ := said(stderr); cmd.ProcessState.ExitCode() != 5 || text != "" {
			t.Errorf("status %d: %s", cmd.ProcessState.ExitCode(), text)
		}
	})
}

// TestD5ShortcutAsksTheSame: the short way passes on the descriptors that the long way does, and leaves it to that to say which are refused.
func TestD5ShortcutAsksTheSame(t *testing.T) {
	p := newPretender(t)
	open := func(path string) *os.File {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	file, dir := open(os.DevNull), open(p.dir)
	for _, c := range []struct {
		files []*os.File
		flags []string
		fds   float64
		short bool
		text  string
	}{
		{files: []*os.File{file, nil, file}, fds: 5, short: true},
		{files: []*os.File{file, dir}, flags: []string{"--no-fds"}, fds: 3, short: true},
		{files: []*os.File{file, dir}, fds: 4, text: "sandbox: the command does not get all descriptors: 4 is a directory (--no-fds passes none, and says nothing)\n"},
	} {
		var asked []map[string]any
		for _, long := range []bool{false, true} {
			args := append(append([]string{"run"}, c.flags...), "true")
			if long {
				args = append([]string{"run", "--log-level", "warn"}, args[1:]...)
			}
			cmd, stderr := p.given(c.files, p.dir, args...)
			s := p.accept()
			asked = append(asked, s.hears())
			s.says(saysAccepted, saysStarted, saysEnded)
			_ = cmd.Wait()
			text, whole := said(stderr)
			if code := cmd.ProcessState.ExitCode(); code != 5 || text != c.text || whole != (long || !c.short) {
				t.Errorf("%q: status %d, initialised as a whole: %v: %s", args, code, whole, text)
			}
		}
		if !reflect.DeepEqual(asked[0], asked[1]) || asked[0]["fds"] != c.fds {
			t.Errorf("asks\n%v\nwant\n%v and %v descriptors", asked[0], asked[1], c.fds)
		}
	}
}
