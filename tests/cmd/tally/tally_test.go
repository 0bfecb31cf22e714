package main

import (
	"bytes"
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
				in.WriteString(`{"Action":"` + action + `","Package":"p","Test":"` + test + `"`)
				if action == "output" {
					in.WriteString(`,"Output":"x_test.go:1: ` + otherPass + `needs root\n"`)
				}
				in.WriteString("}\n")
			}
			s := newStream("", c.ci, &bytes.Buffer{})
			if err := s.read(strings.NewReader(in.String())); err != nil {
				t.Fatal(err)
			}
			var failed []string
			for _, f := range s.failures {
				failed = append(failed, f.name)
			}
			if s.passed != c.passed || strings.Join(failed, "|") != strings.Join(c.failed, "|") {
				t.Errorf("passed %d, failed %q; want %d, %q", s.passed, failed, c.passed, c.failed)
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
	if code := tally("", "sum"); code != 0 || out.String() != "2 passed, 0 failed\n" {
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

// TestSecondRun: what passes when run once more is told apart, but a data race,
// and what fails again, fails.
func TestSecondRun(t *testing.T) {
	t.Setenv("CI", "")
	lines := func(events string) string {
		var in strings.Builder
		for _, e := range strings.Fields(events) {
			action, test, _ := strings.Cut(e, ":")
			pkg, test, _ := strings.Cut(test, ".")
			in.WriteString(`{"Action":"` + action + `","Package":"` + pkg + `","Test":"` + test + `","Output":"` + dataRace + `"}` + "\n")
		}
		return in.String()
	}
	first := lines("run:p.A fail:p.A run:p.B pass:p.B fail:p run:q.C fail:q.C fail:q run:r.D output:r.D fail:r.D fail:r")
	for name, c := range map[string]struct {
		second, want string
		code         int
	}{
		"not run":       {"", "1 passed, 3 failed", 1},
		"both pass":     {"run:p.A pass:p.A run:p.B pass:p.B pass:p run:q.C pass:q.C pass:q", "3 passed, 1 failed", 1},
		"one again":     {"run:p.A fail:p.A run:p.B pass:p.B fail:p run:q.C pass:q.C pass:q", "2 passed, 2 failed", 1},
		"another fails": {"run:p.A pass:p.A run:p.B fail:p.B fail:p run:q.C pass:q.C pass:q", "3 passed, 2 failed", 1},
	} {
		file := filepath.Join(t.TempDir(), "state")
		var out bytes.Buffer
		run([]string{"-state", file, "-again", "tests"}, strings.NewReader(first), &out, &out)
		out.Reset()
		run([]string{"-state", file, "doubts"}, nil, &out, &out)
		if out.String() != "p\nq\n" {
			t.Fatalf("to run again: %q", out.String())
		}
		if c.second != "" {
			run([]string{"-state", file, "-second", "tests"}, strings.NewReader(lines(c.second)), &out, &out)
		}
		out.Reset()
		if code := run([]string{"-state", file, "sum"}, nil, &out, &out); code != c.code || !strings.HasSuffix(out.String(), "\n"+c.want+"\n") {
			t.Errorf("%s: exit %d, %s", name, code, out.String())
		}
	}
}
