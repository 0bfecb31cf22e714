package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/files"
	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/names"
	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

// Word is the first argument of a program that should call [Main] with the others.
const Word = record.Word

func all() []record.Named { return slices.Concat(names.Checks(), files.Checks()) }

// Main runs "all DIRECTORY", or "some NAME,NAME... DIRECTORY", or what these start: "one NAME", "child ROLE ARGUMENT...".
func Main(args []string, out io.Writer) int {
	if len(args) < 2 {
		fmt.Fprintln(out, "too few arguments")
		return 2
	}
	switch args[0] {
	case "all":
		return run(all(), args[1], out)
	case "some":
		names := strings.Split(args[1], ",")
		chosen := slices.DeleteFunc(all(), func(n record.Named) bool { return !slices.Contains(names, n.Name) })
		if len(args) == 3 && len(chosen) == len(names) {
			return run(chosen, args[2], out)
		}
	case "one":
		for _, n := range all() {
			if n.Name == args[1] {
				c := &record.Seen{}
				unix.Umask(0o022)
				c.Run(n.Do)
				fmt.Fprintln(out, strings.Join(c.Parts, " "))
				exit(0)
			}
		}
	case "child":
		if f := files.Children()[args[1]]; f != nil {
			exit(f(args[2:], out))
		}
	}
	fmt.Fprintf(out, "unknown: %q\n", args)
	return 2
}

// exit ends the process now: os.Exit lets the race detector linger for a second.
func exit(status int) { _, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(status), 0, 0) }

func run(checks []record.Named, dir string, out io.Writer) int {
	status := 0
	for _, n := range checks {
		work := filepath.Join(dir, n.Name)
		line, err := runOne(work, n.Name)
		if err != nil {
			line, status = strings.TrimSpace(line)+" failed="+err.Error(), 1
		}
		fmt.Fprintf(out, "%s: %s\n", n.Name, strings.TrimSpace(line))
	}
	return status
}

func runOne(work, name string) (string, error) {
	if err := os.Mkdir(work, 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), record.Patience)
	defer cancel()
	cmd := record.Self(ctx, "one", name)
	cmd.Dir = work
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	b, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = errors.New("timeout")
	}
	return string(b), err
}
