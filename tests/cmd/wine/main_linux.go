package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/codeagent/sandbox/tests/kit/wine"
)

// Exit statuses of this program's own, as timeout and env have them.
const (
	late   = 124
	failed = 125
)

func main() {
	limit := flag.Duration("limit", 0, "end the program after this time")
	var writable directories
	flag.Var(&writable, "write", "a directory below which the program can write (more than once)")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: wine [-limit DURATION] [-write DIR] PROGRAM.exe [ARGUMENT...]")
		os.Exit(failed)
	}
	code, err := run(*limit, writable, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "wine:", err)
	}
	os.Exit(code)
}

// directories is a flag that can be given more than once.
type directories []string

func (d *directories) String() string { return strings.Join(*d, " ") }

func (d *directories) Set(s string) error {
	path, err := filepath.Abs(s)
	*d = append(*d, path)
	return err
}

func run(limit time.Duration, writable, line []string) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	defer stop()
	bed, err := wine.Open(ctx)
	if err != nil {
		return failed, err
	}
	here, err := os.Getwd()
	if err != nil {
		return failed, err
	}
	program, visible := line[0], []string{module(here)}
	if slices.Contains([]string{"/", "/tmp"}, visible[0]) { // it has its own
		here, visible = "", nil
	}
	if strings.ContainsRune(program, '/') {
		if program, err = filepath.Abs(program); err != nil {
			return failed, err
		}
		visible = append(visible, program)
	}
	machine, err := bed.Start(wine.Options{Visible: visible, Writable: writable})
	if err != nil {
		return failed, err
	}
	code, err := in(ctx, machine, limit, here, program, line[1:])
	return code, errors.Join(err, machine.Close())
}

// in runs the program in the machine.
func in(ctx context.Context, machine *wine.Machine, limit time.Duration, here, program string, args []string) (int, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errLate)
		defer cancel()
	}
	cmd := machine.Command(ctx, program, args...)
	if here != "" {
		cmd.Dir = here
	}
	// The directory for temporary files is the host's, and wine ends with "free(): invalid pointer" where it is not there.
	given := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TMPDIR=") })
	cmd.Env = append(given, cmd.Env...)
	if said := os.Getenv("WINEDEBUG"); said != "" {
		cmd.Env = append(cmd.Env, "WINEDEBUG="+said)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.Is(context.Cause(ctx), errLate):
		return late, fmt.Errorf("%s ran for more than %s", program, limit)
	case ctx.Err() != nil:
		return failed, errors.New("interrupted")
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), nil
	case errors.As(err, &exit):
		return 128 + int(exit.Sys().(syscall.WaitStatus).Signal()), nil
	case err != nil:
		return failed, err
	}
	return 0, nil
}

var errLate = errors.New("the limit was reached")

// module returns the directory of the Go module around dir, or dir if there is none.
func module(dir string) string {
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d
		}
	}
	return dir
}
