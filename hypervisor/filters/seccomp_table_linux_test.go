package filters

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write the numbers and the table in the documentation")

// architectures are those that there are filters for.
var architectures = []string{"amd64", "arm64"}

// numbersOf reads the calls of an architecture from the library that knows them.
func numbersOf(t *testing.T, arch string) map[string]int {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+arch+".go"))
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]int)
	for _, c := range regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s+= (\d+)`).FindAllSubmatch(b, -1) {
		if name := strings.ToLower(string(c[1])); name != "arch_specific_syscall" {
			m[name], _ = strconv.Atoi(string(c[2]))
		}
	}
	return m
}

// TestNumbers: the numbers are those of the library, and each of its calls stands in the table:
// a call that a newer library knows has to be looked at.
func TestNumbers(t *testing.T) {
	listed := make(map[string]string)
	for _, f := range families {
		for _, c := range f.Calls {
			if was, twice := listed[c]; twice {
				t.Errorf("%s stands in %q and in %q", c, was, f.Name)
			}
			listed[c] = f.Name
		}
	}
	known := make(map[string]bool)
	for _, arch := range architectures {
		m := numbersOf(t, arch)
		names := make([]string, 0, len(m))
		for name := range m {
			known[name] = true
			names = append(names, name)
			if _, ok := listed[name]; !ok {
				t.Errorf("%s (%s): in no family: find out what it reaches, and put it into table.go", name, arch)
			}
		}
		slices.Sort(names)
		var b bytes.Buffer
		fmt.Fprint(&b, "// Made from golang.org/x/sys by: go test ./hypervisor/filters -run Numbers -update\n\npackage filters\n\n"+
			"// numbers are the system calls of this architecture, by name.\nvar numbers = [...]number{\n")
		for _, name := range names {
			fmt.Fprintf(&b, "\t{%q, %d},\n", name, m[name])
		}
		b.WriteString("}\n")
		current(t, "seccomp_numbers_linux_"+arch+".go", b.String())
	}
	numbers32Current(t)
	for name := range listed {
		if !known[name] {
			t.Errorf("%s: no architecture has it", name)
		}
	}
}

// current compares a file with what it should be, or writes it.
func current(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not current: go test ./hypervisor/filters -update (%v)", file, err)
	}
}

// TestSecurityDocumentation: docs/security.md has the table.
func TestSecurityDocumentation(t *testing.T) {
	const file, begin, end = "../../docs/security.md", "<!-- system calls: go test ./hypervisor/filters -update -->\n", "<!-- end of system calls -->\n"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	_, after, ends := strings.Cut(rest, end)
	if !ok || !ends {
		t.Fatalf("%s does not have the lines %q and %q", file, begin, end)
	}
	var table strings.Builder
	table.WriteString("| calls | verdict | why |\n|---|---|---|\n")
	for _, f := range families {
		if f.Verdict == Allowed {
			continue
		}
		why := f.Why
		if f.Remedy != "" {
			why += " (" + f.Remedy + ")"
		}
		fmt.Fprintf(&table, "| %s: `%s` | %s | %s |\n", f.Name, strings.Join(f.Calls, " "), f.Verdict, why)
	}
	table.WriteString("\nAll others that are allowed, whatever their arguments are:\n\n")
	for _, f := range families {
		if f.Verdict == Allowed {
			fmt.Fprintf(&table, "- %s (%s): `%s`\n", f.Name, f.Why, strings.Join(f.Calls, " "))
		}
	}
	table.WriteString("\nRequests of `ioctl` that are allowed; all others fail with ENOTTY:\n\n")
	why := ""
	for q := range Requests() {
		if q.Why != why {
			only := map[bool]string{true: "only with --containers: "}[q.Containers]
			fmt.Fprintf(&table, "%s- %s%s: `%s`", map[bool]string{true: "\n"}[why != ""], only, q.Why, q.Name)
		} else {
			fmt.Fprintf(&table, " `%s`", q.Name)
		}
		why = q.Why
	}
	table.WriteString("\n\nThese fail with EPERM, so that who asks knows that they were refused:")
	for i, q := range refusedRequests {
		fmt.Fprintf(&table, "%s `%s` (%s)", map[bool]string{true: ","}[i > 0], q.Name, q.Why)
	}
	table.WriteString(".\n")
	current(t, file, before+begin+table.String()+end+after)
}

// TestVerdicts: the rules are those of the table. A conditional family's calls each have a
// condition in some filter, and no other call has one.
func TestVerdicts(t *testing.T) {
	filters := []map[uint32]rule{rules(Settings{}), rules(Settings{Debug: true}), rules(Settings{Mediated: true}), rules(Settings{Confined: true}), rules(Settings{Containers: true}), rules(Settings{Mediated: true, Sharing: SharedConnections})}
	for _, f := range families {
		for _, name := range f.Calls {
			nr, ok := numberOf(name)
			if !ok {
				continue
			}
			plain := rule{ret: f.Verdict.returns()}
			conditional := false
			for _, m := range filters {
				r, listed := m[nr]
				conditional = conditional || r.off != plain.off || r.ret != plain.ret
				if !listed {
					t.Errorf("%s is in the table and not in a filter", name)
				}
			}
			if conditional != (f.Verdict == Conditional) {
				t.Errorf("%s (%s) is %s; a filter has a condition: %v", name, f.Name, f.Verdict, conditional)
			}
		}
	}
}

// TestExplain: what is said is what the filters do.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		call     string
		s        Settings
		verdict  Verdict
		errno    string
		why, how string
	}{
		{"read", Settings{}, Allowed, "", "descriptors", ""},
		{"MOUNT", Settings{}, Denied, "EPERM", "view", "--containers"},
		{"mount", Settings{Containers: true}, Allowed, "", "view", ""},
		{"unshare", Settings{}, Conditional, "EPERM", "CLONE_NEW", "--containers"},
		{"open_by_handle_at", Settings{Containers: true}, Denied, "EPERM", "handle", ""},
		{"clone3", Settings{}, Absent, "ENOSYS", "memory", ""},
		{"ptrace", Settings{}, Denied, "EPERM", "--debug", "--debug"},
		{"ptrace", Settings{Debug: true}, Allowed, "", "--debug", ""},
		{"personality", Settings{}, Conditional, "EPERM", "ADDR_NO_RANDOMIZE", ""},
		{"socket", Settings{}, Conditional, "EAFNOSUPPORT", "VSOCK", ""},
		{"openat", Settings{}, Allowed, "", "supervisor", ""},
		{"openat", Settings{Mediated: true}, Conditional, "", "supervisor", ""},
		{"mkdirat", Settings{Mediated: true}, Conditional, "", "supervisor", ""},
		{"semget", Settings{}, Allowed, "", "without a path", ""},
		{"semget", Settings{Confined: true}, Denied, "ENOSYS", "", ""},
		{"prctl", Settings{Confined: true}, Conditional, "", "DUMPABLE", ""},
		{"1000", Settings{}, Unknown, "ENOSYS", "not in the table", ""},
		{"0x3e8", Settings{}, Unknown, "ENOSYS", "not in the table", ""},
		{strconv.Itoa(unix.SYS_BPF), Settings{Debug: true}, Denied, "EPERM", "kernel", ""},
	} {
		got, err := Explain(c.call, c.s)
		if err != nil || got.Verdict != c.verdict || got.Errno != c.errno || !strings.Contains(got.Family+got.Why, c.why) || !strings.Contains(got.Remedy, c.how) {
			t.Errorf("%s %+v: %+v, %v", c.call, c.s, got, err)
		}
	}
	for _, bad := range []string{"", "no_such_call", "-1", "4294967296", "99999999999999999999", "read\n"} {
		if got, err := Explain(bad, Settings{}); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func FuzzExplain(f *testing.F) {
	for _, s := range []string{"read", "0", "0x1", "-1", "x", "\x00", "4294967295"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := Explain(s, Settings{}); err == nil && (c.Verdict == "" || c.Why == "") {
			t.Fatalf("%q: %+v", s, c)
		}
	})
}
