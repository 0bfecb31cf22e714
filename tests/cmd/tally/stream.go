package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"
)

// otherPass is how package require begins the reasons of a skip that is no loss.
// (It is not imported: the tally depends on nothing.)
const otherPass = "runs in the other pass: |runs with another commit: "

// event is a line of go test -json.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// test is what is known of a test that has not been counted.
type test struct {
	action string // "" while it runs
	output []string
	parent bool // has subtests
	blamed bool // a subtest of it failed
}

// stream counts the tests of one go test run.
type stream struct {
	pass    string
	ci      bool
	allowed *regexp.Regexp // reasons for which CI may skip
	out     io.Writer

	running map[string]map[string]*test // by package, name; "" is the package itself
	builds  map[string][]string         // output by import path

	packages, passed, skipped int
	failures                  []string // names of tests and packages
	packageTimes, testTimes   []timing
}

func newStream(pass string, ci bool, out io.Writer) *stream {
	return &stream{
		pass: pass, ci: ci, out: out, allowed: regexp.MustCompile(otherPass),
		running: map[string]map[string]*test{}, builds: map[string][]string{},
	}
}

func (s *stream) read(in io.Reader) error {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprintln(s.out, line) // not from go test itself
			} else {
				s.handle(e)
			}
		}
		if err == io.EOF {
			return s.unended()
		}
		if err != nil {
			return err
		}
	}
}

func (s *stream) handle(e event) {
	switch e.Action {
	case "build-output":
		s.builds[e.ImportPath] = append(s.builds[e.ImportPath], e.Output)
	case "run":
		s.get(e.Package, e.Test)
		for parent := e.Test; strings.Contains(parent, "/"); {
			parent = parent[:strings.LastIndexByte(parent, '/')]
			s.get(e.Package, parent).parent = true
		}
	case "output":
		t := s.get(e.Package, e.Test)
		t.output = append(t.output, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endPackage(e)
			return
		}
		t := s.get(e.Package, e.Test)
		t.action = e.Action
		if !t.parent {
			s.testTimes = append(s.testTimes, timing{e.Package + " " + e.Test, e.Elapsed})
		}
		s.endTest(e.Package, e.Test, t)
	}
}

func (s *stream) get(pkg, name string) *test {
	tests := s.running[pkg]
	if tests == nil {
		tests = map[string]*test{}
		s.running[pkg] = tests
	}
	t := tests[name]
	if t == nil {
		t = &test{}
		tests[name] = t
	}
	return t
}

// endTest counts a test that ended. Subtests end before their parents.
func (s *stream) endTest(pkg, name string, t *test) {
	output := strings.Join(t.output, "")
	switch {
	case t.action == "fail", t.action == "skip" && s.ci && !s.allowed.MatchString(output):
		s.blame(pkg, name)
		if t.parent && t.blamed {
			return
		}
		what := ""
		if t.action == "skip" {
			what = " (skipped, which CI must not)"
		}
		s.fail(pkg + " " + name + what)
		fmt.Fprint(s.out, output)
	case t.action == "skip":
		s.skipped++
	case !t.parent:
		s.passed++
	}
	t.output = nil
}

// blame notes in the parents of a failed test that they need no count.
func (s *stream) blame(pkg, name string) {
	for strings.Contains(name, "/") {
		name = name[:strings.LastIndexByte(name, '/')]
		s.get(pkg, name).blamed = true
	}
	s.get(pkg, "").blamed = true
}

func (s *stream) endPackage(e event) {
	s.packages++
	tests := s.running[e.Package]
	delete(s.running, e.Package)
	if e.Action != "skip" {
		s.packageTimes = append(s.packageTimes, timing{e.Package, e.Elapsed})
	}
	if e.Action != "fail" {
		if e.Action == "pass" {
			fmt.Fprintf(s.out, "ok    %s%s (%.1f s)\n", s.prefix(), e.Package, e.Elapsed)
		}
		return
	}
	unfinished := unfinished(tests)
	for _, name := range unfinished {
		s.fail(e.Package + " " + name + " (did not end)")
		fmt.Fprint(s.out, strings.Join(tests[name].output, ""))
	}
	own := tests[""]
	if own == nil || !own.blamed {
		if len(unfinished) == 0 {
			s.fail(e.Package)
		}
		if own != nil {
			fmt.Fprint(s.out, strings.Join(own.output, ""))
		}
	}
	if e.FailedBuild != "" {
		fmt.Fprint(s.out, strings.Join(s.builds[e.FailedBuild], ""))
		delete(s.builds, e.FailedBuild)
	}
	fmt.Fprintf(s.out, "FAIL  %s%s (%.1f s)\n", s.prefix(), e.Package, e.Elapsed)
}

// unfinished returns the tests that never ended, but for parents of such.
func unfinished(tests map[string]*test) []string {
	var names []string
	for name, t := range tests {
		if name != "" && t.action == "" && !t.parent {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// unended counts packages whose end was not announced: go test was killed.
func (s *stream) unended() error {
	var pkgs []string
	for pkg := range s.running {
		pkgs = append(pkgs, pkg)
	}
	sort.Strings(pkgs)
	for _, pkg := range pkgs {
		s.endPackage(event{Action: "fail", Package: pkg})
	}
	return nil
}

func (s *stream) fail(name string) {
	s.failures = append(s.failures, s.prefix()+name)
	fmt.Fprintf(s.out, "--- FAIL: %s%s\n", s.prefix(), name)
}

func (s *stream) prefix() string {
	if s.pass == "" {
		return ""
	}
	return "[" + s.pass + "] "
}
