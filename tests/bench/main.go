package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"syscall"

	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// floorArg makes this program a server of the official SDK that does nothing but
// start programs: what any server on that SDK costs, without a sandbox.
const floorArg = "serve-mcp-without-a-sandbox"

// networkArg makes this program one end of a transfer: a server, which says at which
// port it listens, or a client.
const networkArg = "one-end-of-a-transfer"

// watchArg makes this program one that waits for edits.
const watchArg = "wait-for-edits"

// insider runs what the first argument makes of this program, if anything.
func insider(ctx context.Context, args []string, stdout io.Writer) (bool, error) {
	switch {
	case len(args) == 1 && args[0] == floorArg:
		return true, serveFloor(ctx)
	case len(args) > 1 && args[0] == networkArg:
		return true, networkEnd(args[1:], stdout)
	case len(args) == 2 && args[0] == watchArg:
		return true, watchEnd(args[1], stdout)
	}
	return false, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if inner, err := insider(ctx, args, stdout); inner {
		if err != nil {
			fmt.Fprintln(stderr, "bench:", err)
			return 1
		}
		return 0
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	jsonFile := flags.String("json", "", "write the figures to this `file` too")
	only := flags.String("only", "", "run only the groups that match this `regexp`")
	sides := flags.String("sides", "", "race only the sides that match this `regexp`")
	work := flags.String("work", "", "race only in the workloads that match this `regexp`")
	profile := flags.String("cpuprofile", "", "write a profile of this process to this `file`")
	rounds := flags.Int("rounds", 3, "how many `rounds` the medians are of")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var c choice
	for _, f := range []struct {
		into **regexp.Regexp
		text string
	}{{&c.groups, *only}, {&c.sides, *sides}, {&c.work, *work}} {
		var err error
		if *f.into, err = regexp.Compile(f.text); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
			return 2
		}
	}
	if *rounds < 1 {
		fmt.Fprintln(stderr, "bench: -rounds takes a positive number")
		return 2
	}
	stop, err := startProfile(*profile)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	r := report.New(stderr)
	facts, err := measure(ctx, r, c, *rounds)
	stop()
	r.Table(stdout)
	if *jsonFile != "" {
		if werr := r.WriteJSON(*jsonFile, facts); werr != nil {
			fmt.Fprintln(stderr, "bench:", werr)
			return 1
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// choice is what of it all is run: what matches.
type choice struct{ groups, sides, work *regexp.Regexp }

// startProfile begins to write a profile into file, unless that is empty; stop
// ends it.
func startProfile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, err
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, nil
}
