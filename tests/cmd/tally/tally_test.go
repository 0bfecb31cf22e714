package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func TestCounts(t *testing.T) {
	cases := []struct {
		name   string
		ci     bool
		events string // action:test, all in package p
		passed int
		failed []string
	}{
		{"pass", false, "run:A pass:A pass:", 1, nil},
		{"subtests count instead of their parent", false, "run:A run:A/x run:A/y pass:A/x pass:A/y pass:A pass:", 2, nil},
		{"a failed subtest does not count twice", false, "run:A run:A/x run:A/y fail:A/x pass:A/y fail:A fail:", 1, []string{"p A/x"}},
		{"a parent that fails by itself", false, "run:A run:A/x pass:A/x fail:A fail:", 1, []string{"p A"}},
		{"nested", false, "run:A run:A/x run:A/x/1 fail:A/x/1 fail:A/x fail:A fail:", 0, []string{"p A/x/1"}},
		{"skip", false, "run:A skip:A pass:", 0, nil},
		{"skip in CI", true, "run:A skip:A pass:", 0, []string{"p A (skipped, which CI must not)"}},
		{"skip for the other pass in CI", true, "run:A output:A skip:A pass:", 0, nil},
		{"skip for another commit in CI", true, "run:A commit:A skip:A pass:", 0, nil},
		{"no test files", true, "skip:", 0, nil},
		{"panic", false, "run:A pass:A run:B run:B/x fail:", 1, []string{"p B/x (did not end)"}},
		{"broken build", false, "fail:", 0, []string{"p"}},
		{"killed", false, "run:A pass:A run:B", 1, []string{"p B (did not end)"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var in strings.Builder
			for _, e := range strings.Fields(c.events) {
				action, test, _ := strings.Cut(e, ":")
				said := map[string]string{"output": "runs in the other pass: needs root", "commit": "runs with another commit: one in 4"}[action]
				if said != "" {
					action, said = "output", `,"Output":"x_test.go:1: `+said+`\n"`
				}
				in.WriteString(`{"Action":"` + action + `","Package":"p","Test":"` + test + `"` + said)
				in.WriteString("}\n")
			}
			s := newStream("", c.ci, &bytes.Buffer{})
			if err := s.read(strings.NewReader(in.String())); err != nil {
				t.Fatal(err)
			}
			if s.passed != c.passed || strings.Join(s.failures, "|") != strings.Join(c.failed, "|") {
				t.Errorf("passed %d, failed %q; want %d, %q", s.passed, s.failures, c.passed, c.failed)
			}
		})
	}
}

func TestSumOverCommands(t *testing.T) {
	t.Setenv("CI", "")
	file := filepath.Join(t.TempDir(), "state")
	var out bytes.Buffer
	tally := func(stdin string, args ...string) int {
		out.Reset()
		return run(append([]string{"-state", file}, args...), strings.NewReader(stdin), &out, &out)
	}
	if code := tally("", "sum"); code != 1 {
		t.Errorf("nothing ran: exit %d", code)
	}
	tally("", "check", "true", "true")
	tally(`{"Action":"run","Package":"p","Test":"A"}`+"\n"+`{"Action":"pass","Package":"p","Test":"A"}`+"\n"+`{"Action":"pass","Package":"p"}`, "tests")
	if code := tally("", "sum"); code != 0 || !strings.HasSuffix(out.String(), "\n2 passed, 0 failed\n") {
		t.Errorf("exit %d, %q", code, out.String())
	}
	tally("", "check", "broken", "sh", "-c", "echo because; exit 3")
	if !strings.Contains(out.String(), "because") {
		t.Errorf("a failed check's output is missing: %q", out.String())
	}
	tally("", "tests") // go test itself did not start
	if code := tally("", "sum"); code != 1 || !strings.HasSuffix(out.String(), "\n2 passed, 2 failed\n") {
		t.Errorf("exit %d, %q", code, out.String())
	}
}

// TestSlowest: for each pass the slowest come first, and no more than mostSlow, however many calls a pass takes.
func TestSlowest(t *testing.T) {
	t.Setenv("CI", "")
	file := filepath.Join(t.TempDir(), "state")
	var parts [2]strings.Builder
	const calls = mostSlow + 2
	for i := range calls {
		fmt.Fprintf(&parts[i%2], `{"Action":"run","Package":"p%[1]d","Test":"A"}
{"Action":"run","Package":"p%[1]d","Test":"A/x"}
{"Action":"pass","Package":"p%[1]d","Test":"A/x","Elapsed":%[1]d}
{"Action":"pass","Package":"p%[1]d","Test":"A","Elapsed":%[1]d}
{"Action":"pass","Package":"p%[1]d","Elapsed":%[2]d}
`, i, 1000-i)
	}
	var out bytes.Buffer
	for i := range parts {
		for _, pass := range []string{"root", "user"} {
			run([]string{"-state", file, "-pass", pass, "tests"}, strings.NewReader(parts[i].String()), &out, &out)
		}
	}
	out.Reset()
	run([]string{"-state", file, "sum"}, nil, &out, &out)
	for _, pass := range []string{"root", "user"} {
		_, rest, _ := strings.Cut(out.String(), "\nslowest packages ("+pass+"):\n  1000.0 s  p0\n")
		packages, rest, _ := strings.Cut(rest, fmt.Sprintf("\nslowest tests (%s):\n%8.1f s  p%d A/x\n", pass, float64(calls-1), calls-1))
		tests, _, _ := strings.Cut(rest, "\n\n")
		if n := strings.Count(packages, "\n"); n != mostSlow-1 {
			t.Errorf("%s: %d packages in\n%s", pass, n+1, out.String())
		}
		if n := strings.Count(tests+"\n", "\n"); n != mostSlow-1 || strings.Contains(tests, " A\n") {
			t.Errorf("%s: %d tests in\n%s", pass, n+1, out.String())
		}
	}
	if !strings.HasSuffix(out.String(), fmt.Sprintf("\n%d passed, 0 failed\n", 2*calls)) {
		t.Errorf("the last line is not the counts:\n%s", out.String())
	}
}
