package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	jsonFile := flags.String("json", "", "write the figures to this `file` too")
	only := flags.String("only", "", "run only the groups that match this `regexp`")
	rounds := flags.Int("rounds", 3, "how many `rounds` the medians are of")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	match, err := regexp.Compile(*only)
	if err != nil || *rounds < 1 {
		fmt.Fprintln(stderr, "bench: -only takes a regular expression, -rounds a positive number")
		return 2
	}
	r := &report{progress: stderr}
	facts, err := measure(ctx, r, match, *rounds)
	r.table(stdout)
	if *jsonFile != "" {
		if werr := r.writeJSON(*jsonFile, facts); werr != nil {
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
