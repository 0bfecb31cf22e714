package gate

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/codeagent/sandbox/fsbridge/texts"
)

// TestMain runs this program as a process with hostile names, if it is asked to.
func TestMain(m *testing.M) {
	if os.Getenv("CALLER_TEST") == "" {
		os.Exit(m.Run())
	}
	_ = os.WriteFile("/proc/self/comm", []byte("\x1b[2J\u202eevil"), 0o600)
	cmd := exec.Command("sh", "-c", "echo $$; read x")
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	if err := cmd.Run(); err != nil {
		os.Exit(1)
	}
}

// A process is told with its parents, up to what this program has started; names that it has chosen do no harm.
func TestOf(t *testing.T) {
	shell := exec.Command("sh", "-c", `"$@"; true`, "first", os.Args[0], "a b\x1b]0;x\a", strings.Repeat("x", 10000))
	shell.Env = append(os.Environ(), "CALLER_TEST=1")
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := shell.StdinPipe() // its end ends all of them
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = shell.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	list := NewProcessReader().Of(pid)
	if len(list) != 2 { // the inner shell and this program; the outer shell is our own child
		t.Fatalf("%+v", list)
	}
	if p := list[0]; p.PID != pid || p.Name != "sh" || p.CommandLine != "sh -c 'echo $$; read x'" || p.Program == "" {
		t.Errorf("%+v", p)
	}
	if p := list[1]; !strings.Contains(p.Name, "evil") || !strings.Contains(p.CommandLine, "'a b<001B>]0;x<0007>'") || !strings.Contains(p.CommandLine, "bytes …]") {
		t.Errorf("%+v", p)
	}
	if list[0].Inside != 0 || list[1].Inside != list[1].PID { // there is no other pid namespace
		t.Errorf("inside: %d and %d, which is %d", list[0].Inside, list[1].Inside, list[1].PID)
	}
	for _, p := range list {
		for _, s := range []string{p.Name, p.Program, p.CommandLine} {
			for _, r := range s {
				if !texts.Clean(r) {
					t.Errorf("%U in %q", r, s)
				}
			}
		}
	}
	for _, pid := range []int{0, 1, -1, 1 << 30} {
		if list := NewProcessReader().Of(pid); list != nil {
			t.Errorf("%d: %+v", pid, list)
		}
	}
}

// A question of this program itself is its own.
func TestOfItself(t *testing.T) {
	if list := NewProcessReader().Of(os.Getpid()); len(list) != 1 || list[0].PID != os.Getpid() || list[0].CommandLine == "" {
		t.Errorf("%+v", list)
	}
}

// While readers of arguments are stuck, the others do not wait, and no more are begun.
func TestStuck(t *testing.T) {
	r := NewProcessReader()
	for range maxStuck {
		r.slots <- struct{}{}
	}
	if got := r.arguments(os.Getpid(), time.Now().Add(time.Hour)); got != "" {
		t.Errorf("%q", got)
	}
}

func FuzzCommandLine(f *testing.F) {
	f.Add("a\x00b c\x00")
	f.Add("\x00\x00")
	f.Add("'\x00\u202e\xff\x00")
	f.Fuzz(func(t *testing.T, args string) {
		got := commandLine(args)
		if !utf8.ValidString(got) || len(got) > 12*texts.Most {
			t.Errorf("%q: %q", args, got)
		}
		for _, r := range got {
			if !texts.Clean(r) {
				t.Errorf("%q shows %U", args, r)
			}
		}
	})
}

// What runs below a process is listed, its children and theirs, and nothing else.
func TestBelow(t *testing.T) {
	shell := exec.Command("sh", "-c", `sh -c 'echo $$ $PPID; read x; exit 0' "a$(printf '\033')b"; exit 0`)
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := shell.StdinPipe() // its end ends both
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = shell.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var inner, outer int
	if _, err := fmt.Sscan(line, &inner, &outer); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	list := NewProcessReader().Below(os.Getpid(), now)
	if len(list) != 2 || list[0].PID != outer || list[1].PID != inner {
		t.Fatalf("%+v, want %d and %d", list, outer, inner)
	}
	if p := list[0]; p.Parent != 0 || p.Inside != outer || p.Name != "sh" || p.State == "" {
		t.Errorf("%+v", p)
	}
	if p := list[1]; p.Parent != outer || p.Inside != inner || !strings.Contains(p.CommandLine, "a<001B>b") || p.CPU < 0 {
		t.Errorf("%+v", p)
	}
	for _, p := range list { // a minute is enough for any machine, and less than what a wrong unit makes of it
		if age := now.Sub(p.Started); age < -time.Minute || age > 10*time.Minute {
			t.Errorf("%s began %v ago", p.Name, age)
		}
	}
	if list := NewProcessReader().Below(inner, now); len(list) != 0 {
		t.Errorf("below one without children: %+v", list)
	}
}
