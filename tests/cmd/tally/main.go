package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// state is what one call has counted, or all.
type state struct {
	Passed  int
	Skipped int      // elsewhere, or outside CI
	Failed  []string // by name
	Slow    []slowest
}

// slowest is what took longest in one pass, the slowest first.
type slowest struct {
	Pass            string
	Packages, Tests []timing
}

// timing is how long a package or a test took.
type timing struct {
	Name    string
	Seconds float64
}

// mostSlow is how many packages, and how many tests, sum names for each pass.
const mostSlow = 20

// longest returns the mostSlow longest of them, the longest first.
func longest(all []timing) []timing {
	slices.SortStableFunc(all, func(a, b timing) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return all[:min(len(all), mostSlow)]
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("tally", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("state", "", "the `directory` with the counts")
	allow := flags.String("allow-skip", "", "reasons for which even CI may skip, a `regexp`")
	pass := flags.String("pass", "", "what to call this pass in the names of tests")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	st, err := &state{}, error(nil)
	switch cmd := flags.Arg(0); {
	case cmd == "tests" && flags.NArg() == 1:
		err = st.tests(*pass, *allow, stdin, stdout)
	case cmd == "check" && flags.NArg() >= 3:
		st.check(flags.Arg(1), flags.Args()[2:], stdout)
	case cmd == "sum" && flags.NArg() == 1:
		if st, err = load(*dir); err == nil {
			return st.sum(stdout)
		}
		fmt.Fprintln(stderr, "tally:", err)
		return 2
	default:
		fmt.Fprintln(stderr, "usage: tally -state DIR [-pass NAME] [-allow-skip REGEXP] tests | check NAME COMMAND... | sum")
		return 2
	}
	if err = errors.Join(err, st.save(*dir)); err != nil {
		fmt.Fprintln(stderr, "tally:", err)
		return 2
	}
	return 0
}

// load reads what all calls so far have added, in their order.
func load(dir string) (*state, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	all := &state{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var st state
		if err := json.Unmarshal(b, &st); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all.Passed += st.Passed
		all.Skipped += st.Skipped
		all.Failed = append(all.Failed, st.Failed...)
		for _, slow := range st.Slow {
			all.slow(slow)
		}
	}
	return all, nil
}

// slow adds what took longest in a part of a pass.
func (st *state) slow(s slowest) {
	i := slices.IndexFunc(st.Slow, func(have slowest) bool { return have.Pass == s.Pass })
	if i < 0 {
		st.Slow = append(st.Slow, s)
		return
	}
	have := &st.Slow[i]
	have.Packages = longest(append(have.Packages, s.Packages...))
	have.Tests = longest(append(have.Tests, s.Tests...))
}

// save adds what this call has counted, in a file of its own: several calls may
// run at a time.
func (st *state) save(dir string) error {
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, fmt.Sprintf("%020d-*.json", time.Now().UnixNano()))
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// tests counts one stream of go test -json.
func (st *state) tests(pass, allow string, in io.Reader, out io.Writer) error {
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
		s.fail("no package was tested")
	}
	st.Passed += s.passed
	st.Skipped += s.skipped
	st.Failed = append(st.Failed, s.failures...)
	st.Slow = append(st.Slow, slowest{pass, longest(s.packageTimes), longest(s.testTimes)})
	return err
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
	for _, p := range st.Slow {
		p.print(out)
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

func (s slowest) print(out io.Writer) {
	for _, l := range []struct {
		what string
		of   []timing
	}{{"packages", s.Packages}, {"tests", s.Tests}} {
		if len(l.of) == 0 {
			continue
		}
		fmt.Fprintf(out, "\nslowest %s (%s):\n", l.what, cmp.Or(s.Pass, "all"))
		for _, t := range l.of {
			fmt.Fprintf(out, "%8.1f s  %s\n", t.Seconds, t.Name)
		}
	}
	fmt.Fprintln(out)
}

func inCI() bool {
	v := os.Getenv("CI")
	return v != "" && v != "0" && v != "false"
}
