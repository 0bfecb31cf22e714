package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/screen"
)

// shownCommand is a command of a document with what the document says that it
// prints.
type shownCommand struct{ line, output string }

// transcript returns the commands in the code blocks of a document's section: a
// line that begins with "$ " and what follows up to the next one.
func transcript(t *testing.T, file, section string) (list []shownCommand) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(drive.Module(t), file))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), "\n## "+section+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", file, section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for i, block := range strings.Split(text, "\n```") {
		if i%2 == 0 {
			continue
		}
		_, block, _ = strings.Cut(block+"\n", "\n") // after the language
		for line := range strings.Lines(block) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				list = append(list, shownCommand{line: strings.TrimSuffix(command, "\n")})
			} else if len(list) > 0 {
				list[len(list)-1].output += line
			}
		}
	}
	return list
}

// varying are what differs from one run to the next, and what stands for it.
var varying = []struct {
	text *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`\b\d+ (s|min) ago|just now`), "NOW"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s)\b`), "LONG"},
	{regexp.MustCompile(`\b\d+(\.\d+)? (B|KiB)`), "SIZE"},
	{regexp.MustCompile(`session [0-9a-f]+ started \(process \d+\)`), "session started"},
	{regexp.MustCompile(`refused in LONG`), "refused soon"},
	{regexp.MustCompile(` +`), " "},
}

func steady(s string) string {
	for _, v := range varying {
		s = v.text.ReplaceAllString(s, v.by)
	}
	return strings.TrimSpace(s)
}

// TestReadmeTour does the tour of the README as it is written there, and gets
// what is written there.
func TestReadmeTour(t *testing.T) {
	d := newDesk(t)
	home := filepath.Join(filepath.Dir(d.dir), "home")
	d.dir = filepath.Join(home, "project")
	bin := filepath.Join(filepath.Dir(home), "bin")
	for _, dir := range []string{filepath.Join(d.dir, "src"), filepath.Join(home, ".ssh"), bin} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.write("src/main.go", "package main\n\nfunc main() {\n\tprintln(\"hello\")\n}\n")
	d.write("README", "# notes\n")
	d.write("../.ssh/id_rsa", "secret\n")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "sandbox")); err != nil {
		t.Fatal(err)
	}
	list := transcript(t, "README.md", "A tour in five minutes")
	if len(list) < 10 {
		t.Fatalf("only %d commands", len(list))
	}
	d.env = append(d.env, "PATH="+bin+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8")
	sh := &tourShell{t: t, d: d}
	for _, c := range list {
		got := strings.ReplaceAll(sh.do(c), home, "/home/me")
		if have, want := steady(got), steady(c.output); have != want {
			t.Errorf("$ %s\nprints:\n%s\nand the README says:\n%s", c.line, have, want)
		}
	}
}

// tourShell runs commands of the tour: each in a shell of its own that knows
// how the last one ended.
type tourShell struct {
	t          *testing.T
	d          *desk
	status     int
	background *exec.Cmd
}

func (s *tourShell) do(c shownCommand) string {
	s.t.Helper()
	script := fmt.Sprintf("(exit %d); ", s.status) + c.line
	if s.background != nil {
		script = strings.ReplaceAll(script, "$!", fmt.Sprint(s.background.Process.Pid))
	}
	cmd := screen.Helper(s.t, "sandbox")
	cmd.Dir, cmd.Env = s.d.dir, append(cmd.Env, s.d.env...)
	cmd.Path, cmd.Args = "/bin/bash", []string{"bash", "-c", script}
	_, answer, asks := strings.Cut(c.output, "[y/N] ")
	if asks {
		user := screen.On(s.t, cmd)
		user.Expect("[y/N] ")
		user.Send(answer[:1] + "\r")
		// What is before it, other tests look at; and what the command had time to
		// say after it is its own affair.
		user.Expect(answer[strings.LastIndex(strings.TrimSpace(answer), "\n")+1 : len(answer)-1])
		s.status = user.Wait()
		return c.output
	}
	if line, ok := strings.CutSuffix(c.line, " &"); ok {
		cmd.Args = []string{"bash", "-c", "exec " + line}
		if err := cmd.Start(); err != nil {
			s.t.Fatal(err)
		}
		s.background = cmd
		actortest.Eventually(s.t, "the command is under way", func() bool { return !s.d.exists("src") })
		return ""
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	s.status = drive.ExitCode(s.t, err)
	if s.background != nil && strings.HasPrefix(c.line, "kill ") {
		_ = s.background.Wait()
	}
	return out.String()
}
