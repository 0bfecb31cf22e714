package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network/policy"
)

// Config is what all levels together say. Zero sizes, numbers and times mean
// the default of whoever reads them, where that is not zero.
type Config struct {
	Isolation  string
	Locked     []string
	Profile    string
	Directory  []Directory
	Log        Log
	Undo       Undo
	Steps      api.Timing     // when a step ends
	Safeguards api.Safeguards // what is held for a decision
	// Notifications are how a person is told that something waits.
	Notifications struct{ Desktop string }
	Commands      Commands
	Jail          Jail
	Places        Writable
	Limits        Limits
	Bridge        api.Serving // how the folders are served
	Agent         Agent
	Serve         Serve
	Stdio         Stdio
	MCP           MCP
	Classifier    Classifier
	VM            VM
	Network       Network
}

// Log is the diagnostics on stderr.
type Log struct{ Level, Format string }

// Undo is the undo log.
type Undo struct {
	api.Undo
	Dir string
}

// Commands is how commands run.
type Commands struct{ AtOnce int }

// Jail is the view that a command has: what a guest is given as it is said here, and what this program makes something of first.
type Jail struct {
	hypervisor.Jail
	Mode             string // static or dynamic
	Agents, AllowUse []string
}

// Writable is what a command in a jail can write to beside the working folders.
type Writable struct {
	hypervisor.Places
	Caches, Home string // overlay or read-only
}

// Limits are what everything in a jail may take together.
type Limits struct {
	hypervisor.Limits
	CPUs    string // a number, perhaps with a fraction
	Folders int64  // of the bridges, not of the jail
}

// Resources are the limits as a runtime takes them.
func (l Limits) Resources() hypervisor.Limits {
	r := l.Limits
	r.MilliCPUs, _ = milliCPUs(l.CPUs)
	return r
}

func milliCPUs(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	const least, most = 0.01, 4096
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n == 0 || n >= least && n <= most) {
		return 0, fmt.Errorf("%q is not a number of processors, as 1.5 is", s)
	}
	return int(math.Round(n * 1000)), nil
}

// Agent is the coding agent behind agent.prompt of the STDIO API.
type Agent struct{ Command []string }

// Serve is where serve listens (HOST:PORT): for clients, and for Prometheus.
type Serve struct{ Listen, Metrics string }

// Stdio is the STDIO API of serve.
type Stdio struct{ Timeout Duration }

// MCP is the MCP server of serve.
type MCP struct {
	Socket  string
	Timeout Duration
}

// Classifier says which commands run unasked, and has patterns of commands
// beside the built-in ones.
type Classifier struct {
	AutoApprove                  string
	ReadOnly, Write, Destructive []string
	MaxBytes                     Size
}

// VM is the virtual machine of --isolation vm.
type VM struct {
	hypervisor.VM
	Kernel, Initrd string
	FSBackend      string // virtiofs or 9p
	RootFS         string // a file, none, or empty for the one that was built
	Mode           string // persistent or ephemeral
	DiskSize       Size
}

// Network is what commands reach, and which of their ports the host reaches.
type Network struct {
	policy.Network
	Inject []string
}

// Directory is one working folder, a [[directory]] of the file.
type Directory struct {
	Path     string
	Label    string
	ReadOnly bool
	// UndoDir is a directory of logs for this folder, in place of undo.dir; a file cannot say it.
	UndoDir string
}

// Size is a number of bytes, written as a number or with a unit ("64KiB",
// "1.5GB"); -1 means no limit.
type Size int64

// Set parses s.
func (b *Size) Set(s string) error {
	number, factor := strings.ToUpper(strings.TrimSpace(s)), 1.0
	for _, u := range []struct {
		suffix string
		factor float64
	}{
		{"KIB", 1 << 10}, {"MIB", 1 << 20}, {"GIB", 1 << 30}, {"TIB", 1 << 40},
		{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
		{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1},
	} {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n == -1 && factor == 1 || n >= 0) || n*factor >= 1<<62 {
		return fmt.Errorf("%q is not a size: write a number of bytes, or one with KiB, MiB, GiB (-1: no limit)", s)
	}
	*b = Size(math.Trunc(n * factor))
	return nil
}

// String is the shortest exact form.
func (b Size) String() string {
	for _, u := range []struct {
		suffix string
		factor Size
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if b > 0 && b%u.factor == 0 {
			return strconv.FormatInt(int64(b/u.factor), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Duration is a time written as "30s" or "72h"; it is never negative.
type Duration time.Duration

// Set parses s.
func (d *Duration) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a time: write one like 30s, 5m or 72h", s)
	}
	*d = Duration(v)
	return nil
}

// String leaves out what is zero: 72h, not 72h0m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if rest, ok := strings.CutSuffix(s, "m0s"); ok {
		s = rest + "m"
	}
	if rest, ok := strings.CutSuffix(s, "h0m"); ok {
		s = rest + "h"
	}
	return s
}

// assign puts v, as the TOML decoder gives it, into a field.
func assign(field, v any) error {
	switch f := field.(type) {
	case *string:
		return scalar(f, v, "text in quotes")
	case *bool:
		return scalar(f, v, "true or false")
	case *int:
		var n int64
		if err := scalar(&n, v, "a whole number"); err != nil {
			return err
		}
		if n < -1 || n > math.MaxInt32 { // which key knows no -1 says [Key.check]
			return fmt.Errorf("%d is out of range: write a number from 0 to %d", n, math.MaxInt32)
		}
		*f = int(n)
		return nil
	case *Size:
		switch v := v.(type) {
		case int64:
			return f.Set(strconv.FormatInt(v, 10))
		case string:
			return f.Set(v)
		}
		return wrongType(v, "a size, such as 1048576 or \"1MiB\"")
	case *Duration:
		var s string
		if err := scalar(&s, v, "a time in quotes, such as \"30s\""); err != nil {
			return err
		}
		return f.Set(s)
	case *[]string:
		return list(f, v)
	case *[]Directory:
		return directories(f, v)
	}
	panic(fmt.Sprintf("config: no values of type %T", field))
}

func scalar[T any](f *T, v any, want string) error {
	x, ok := v.(T)
	if !ok {
		return wrongType(v, want)
	}
	*f = x
	return nil
}

func wrongType(v any, want string) error {
	return fmt.Errorf("%s is not what belongs here: write %s", describe(v), want)
}

func describe(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case map[string]any:
		return "a table"
	case []any:
		return "a list"
	}
	return fmt.Sprint(v)
}

func list(f *[]string, v any) error {
	items, ok := v.([]any)
	if !ok {
		return wrongType(v, "a list, such as [\"a\", \"b\"]")
	}
	out := make([]string, len(items))
	for i, item := range items {
		if err := scalar(&out[i], item, "a list of texts"); err != nil {
			return err
		}
	}
	*f = out
	return nil
}

// directories reads [[directory]].
func directories(f *[]Directory, v any) error {
	items, ok := v.([]any)
	if !ok {
		return wrongType(v, "[[directory]] sections")
	}
	var out []Directory
	for _, item := range items {
		table, ok := item.(map[string]any)
		if !ok {
			return wrongType(item, "[[directory]] sections")
		}
		var d Directory
		access := "read_write"
		fields := map[string]*string{"path": &d.Path, "label": &d.Label, "access": &access}
		for name, value := range table {
			field, ok := fields[name]
			if !ok {
				return fmt.Errorf("unknown key %q in it: there are path, label and access", name)
			}
			if err := scalar(field, value, "text in quotes"); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if d.Path == "" {
			return fmt.Errorf("it has no path")
		}
		if err := CheckLabel(d.Label); err != nil {
			return err
		}
		if access != "read_write" && access != "read_only" {
			return fmt.Errorf("access: %q is not one of read_write, read_only", access)
		}
		d.ReadOnly = access == "read_only"
		out = append(out, d)
	}
	*f = out
	return nil
}

// CheckLabel accepts what a working folder may be called, and nothing at all.
func CheckLabel(s string) error {
	if s == "" {
		return nil
	}
	ok := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	for _, r := range s {
		if !ok(r) {
			return fmt.Errorf("%q is not a label: use letters, digits, dots, dashes and underscores", s)
		}
	}
	if strings.Trim(s, "0123456789") == "" || s[0] == '.' || s[0] == '-' || len(s) > 64 {
		return fmt.Errorf("%q is not a label: it must not be a number, begin with a dot or a dash, or be longer than 64", s)
	}
	return nil
}

// text is the value of a field as codeagent.toml would have it.
func text(field any) string {
	switch f := field.(type) {
	case *string:
		return strconv.Quote(*f)
	case *bool:
		return strconv.FormatBool(*f)
	case *int:
		return strconv.Itoa(*f)
	case *Size:
		if s := f.String(); strings.HasSuffix(s, "B") {
			return strconv.Quote(s)
		}
		return f.String()
	case *Duration:
		return strconv.Quote(f.String())
	case *[]string:
		quoted := make([]string, len(*f))
		for i, s := range *f {
			quoted[i] = strconv.Quote(s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case *[]Directory:
		tables := make([]string, len(*f))
		for i, d := range *f {
			access := "read_write"
			if d.ReadOnly {
				access = "read_only"
			}
			tables[i] = fmt.Sprintf("{path = %q, label = %q, access = %q}", d.Path, d.Label, access)
		}
		return "[" + strings.Join(tables, ", ") + "]"
	}
	panic(fmt.Sprintf("config: no values of type %T", field))
}

// data is the value of a field for JSON.
func data(field any) any {
	switch f := field.(type) {
	case *Size:
		return int64(*f)
	case *Duration:
		return f.String()
	case *[]string:
		return append([]string{}, *f...)
	case *[]Directory:
		out := []map[string]string{}
		for _, d := range *f {
			access := "read_write"
			if d.ReadOnly {
				access = "read_only"
			}
			out = append(out, map[string]string{"path": d.Path, "label": d.Label, "access": access})
		}
		return out
	}
	return deref(field)
}

func deref(field any) any {
	switch f := field.(type) {
	case *string:
		return *f
	case *bool:
		return *f
	case *int:
		return *f
	}
	panic(fmt.Sprintf("config: no values of type %T", field))
}
