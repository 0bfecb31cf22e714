package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"time"
)

// state is kept between calls.
type state struct {
	Passed  int
	Skipped int      // elsewhere, or outside CI
	Failed  []string // by name
	Doubt   []doubt  // failed, and to be run once more
	Flaky   []string // failed, and passed when run once more
}

// doubt is a failure that the machine's load may have caused.
type doubt struct{ Package, Name string }

// mostFlaky is how many failures may have been the load's: more are a sign of
// something else.
const mostFlaky = 5

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("tally", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("state", "", "the `file` with the counts")
	allow := flags.String("allow-skip", "", "reasons for which even CI may skip, a `regexp`")
	again := flags.Bool("again", false, "leave failures other than data races open until \"tests -second\"")
	second := flags.Bool("second", false, "the stream is of the packages that \"doubts\" named")
	pass := flags.String("pass", "", "what to call this pass in the names of tests")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	st, err := load(*file)
	if err != nil {
		fmt.Fprintln(stderr, "tally:", err)
		return 2
	}
	switch cmd := flags.Arg(0); {
	case cmd == "tests" && flags.NArg() == 1:
		err = st.tests(*pass, *allow, *again, *second, stdin, stdout)
	case cmd == "doubts" && flags.NArg() == 1:
		for _, pkg := range st.doubts() {
			fmt.Fprintln(stdout, pkg)
		}
	case cmd == "check" && flags.NArg() >= 3:
		st.check(flags.Arg(1), flags.Args()[2:], stdout)
	case cmd == "sum" && flags.NArg() == 1:
		return st.sum(stdout)
	default:
		fmt.Fprintln(stderr, "usage: tally -state FILE [-pass NAME] [-allow-skip REGEXP] [-again | -second] tests | doubts | check NAME COMMAND... | sum")
		return 2
	}
	if err = errors.Join(err, st.save(*file)); err != nil {
		fmt.Fprintln(stderr, "tally:", err)
		return 2
	}
	return 0
}

func load(file string) (*state, error) {
	st := &state{}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return st, nil
	}
	return st, json.Unmarshal(b, st)
}

func (st *state) save(file string) error {
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}

// tests counts one stream of go test -json.
func (st *state) tests(pass, allow string, again, second bool, in io.Reader, out io.Writer) error {
	allowed, err := regexp.Compile(otherPass + "|" + allow)
	if err != nil {
		return err
	}
	s := newStream(pass, inCI(), out)
	if allow != "" {
		s.allowed = allowed
	}
	err = s.read(in)
	if s.packages == 0 && err == nil {
		s.fail("", "no package was tested", true)
	}
	if second {
		st.judge(s.failures)
		return err
	}
	st.Passed += s.passed
	st.Skipped += s.skipped
	for _, f := range s.failures {
		if again && f.pkg != "" && !f.certain {
			st.Doubt = append(st.Doubt, doubt{f.pkg, f.name})
		} else {
			st.Failed = append(st.Failed, f.name)
		}
	}
	return err
}

// doubts returns the packages to run once more.
func (st *state) doubts() []string {
	var pkgs []string
	for _, d := range st.Doubt {
		pkgs = append(pkgs, d.Package)
	}
	slices.Sort(pkgs)
	return slices.Compact(pkgs)
}

// judge ends the doubts: what failed in both runs, or in the second one, failed.
// The tests of the second run are not counted a second time.
func (st *state) judge(failures []failure) {
	var names []string
	for _, f := range failures {
		names = append(names, f.name)
	}
	for _, d := range st.Doubt {
		if !slices.Contains(names, d.Name) {
			st.Flaky = append(st.Flaky, d.Name)
			st.Passed++
		}
	}
	st.Failed = append(st.Failed, names...)
	st.Doubt = nil
}

func (st *state) check(name string, command []string, out io.Writer) {
	start := time.Now()
	b, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	took := time.Since(start).Round(100 * time.Millisecond)
	if err == nil {
		st.Passed++
		fmt.Fprintf(out, "ok    %s (%s)\n", name, took)
		return
	}
	st.Failed = append(st.Failed, name)
	fmt.Fprintf(out, "FAIL  %s (%s): %v\n%s\n", name, took, err, b)
}

func (st *state) sum(out io.Writer) int {
	for _, d := range st.Doubt { // the second run did not take place
		st.Failed = append(st.Failed, d.Name)
	}
	if len(st.Flaky) > 0 {
		fmt.Fprintln(out, "\nfailed, and passed when run once more:")
		for _, name := range st.Flaky {
			fmt.Fprintln(out, "  "+name)
		}
		if len(st.Flaky) > mostFlaky {
			st.Failed = append(st.Failed, fmt.Sprintf("%d tests failed at first: too many to blame the load", len(st.Flaky)))
		}
	}
	if len(st.Failed) > 0 {
		fmt.Fprintln(out, "\nfailed:")
		for _, name := range st.Failed {
			fmt.Fprintln(out, "  "+name)
		}
	}
	if st.Skipped > 0 {
		fmt.Fprintf(out, "%d skipped\n", st.Skipped)
	}
	fmt.Fprintf(out, "%d passed, %d failed\n", st.Passed, len(st.Failed))
	if len(st.Failed) > 0 || st.Passed == 0 {
		return 1
	}
	return 0
}

func inCI() bool {
	v := os.Getenv("CI")
	return v != "" && v != "0" && v != "false"
}
