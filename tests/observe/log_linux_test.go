package observe

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/drive"
)

// line is a line of the log.
type line struct {
	Timestamp string `json:"timestamp"`
	Level     string `json:"level"`
	Component string `json:"component"`
	Message   string `json:"message"`
	Step      int64  `json:"step_id"`
	Request   string `json:"request_id"`
	text      string
}

// logLines parses the lines of stderr that are objects, and checks that each is
// one in full; the others are what the program tells people.
func logLines(t testing.TB, stderr string) []line {
	t.Helper()
	var all []line
	for text := range strings.Lines(stderr) {
		text = strings.TrimSpace(text)
		if !strings.HasPrefix(text, "{") {
			continue
		}
		l := line{text: text}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Errorf("not JSON: %v: %s", err, text)
			continue
		}
		seen := map[string]bool{}
		for _, m := range regexp.MustCompile(`[,{]"([a-z_]+)":`).FindAllStringSubmatch(text, -1) {
			if seen[m[1]] && slices.Contains([]string{"timestamp", "level", "component", "message", "step_id", "request_id"}, m[1]) {
				t.Errorf("%s twice: %s", m[1], text)
			}
			seen[m[1]] = true
		}
		all = append(all, l)
	}
	return all
}

// work is a command that does some of everything.
const work = `echo sekrit-content > a; mkdir d; echo x > d/b; mv a c; rm d/b; ln -s c l; chmod 600 c; truncate -s 0 c; echo $SEKRIT_ENV >/dev/null`

func traced(t testing.TB, level string) (drive.Result, *drive.Sandbox) {
	t.Helper()
	s := drive.New(t, func(t testing.TB, root string) {
		if err := os.WriteFile(filepath.Join(root, "old"), []byte("sekrit-old"), 0o644); err != nil {
			t.Fatal(err)
		}
	})
	s.Env = append(s.Env, "SEKRIT_ENV=sekrit-value")
	return s.Must(t, "run", "--log-level", level, "--log-format", "json", "--env", "SEKRIT_ENV=sekrit-value", "--", "sh", "-c", work+"; echo sekrit-new > old", "sekrit-argument"), s
}

func TestOB01StderrIsJSONLines(t *testing.T) {
	r, _ := traced(t, "trace")
	lines := logLines(t, r.Stderr)
	if len(lines) < 10 {
		t.Fatalf("only %d lines: %s", len(lines), r.Stderr)
	}
	stamp := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)
	components := []string{"fs_backend", "control", "undo", "file_watcher", "stdio_api", "mcp", "session", "safeguard", "cli"}
	for _, l := range lines {
		if !stamp.MatchString(l.Timestamp) {
			t.Errorf("timestamp %q: %s", l.Timestamp, l.text)
		}
		if at, err := time.Parse("2006-01-02T15:04:05.000000Z", l.Timestamp); err != nil || time.Since(at).Abs() > 10*time.Minute {
			t.Errorf("timestamp %q is not now, in UTC", l.Timestamp)
		}
		if !slices.Contains([]string{"error", "warn", "info", "debug", "trace"}, l.Level) || !slices.Contains(components, l.Component) || l.Message == "" {
			t.Errorf("level, component or message: %s", l.text)
		}
	}
	for component, message := range map[string]string{
		"session": "runtime started", "fs_backend": "backend started", "control": "command dispatched", "undo": "step committed", "file_watcher": "watching for edits from outside",
	} {
		if !slices.ContainsFunc(lines, func(l line) bool { return l.Component == component && l.Message == message }) {
			t.Errorf("no line %q of %s", message, component)
		}
	}
	if r.Stdout != "" {
		t.Errorf("on stdout: %q", r.Stdout)
	}
}

func TestOB03StepID(t *testing.T) {
	r, s := traced(t, "debug")
	lines := logLines(t, r.Stderr)
	id := s.History(t)[0].StepID
	from := slices.IndexFunc(lines, func(l line) bool { return l.Message == "step started" })
	to := slices.IndexFunc(lines, func(l line) bool { return l.Message == "step completed" })
	if from < 0 || to < from {
		t.Fatalf("no step in the log: %s", r.Stderr)
	}
	captured := 0
	for _, l := range lines[from : to+1] {
		if l.Step != id {
			t.Errorf("step_id %d during step %d: %s", l.Step, id, l.text)
		}
		if l.Message == "preimage captured" {
			captured++
		}
	}
	if captured == 0 {
		t.Error("no capture in the log")
	}
	for _, l := range lines[:from] {
		if l.Step != 0 {
			t.Errorf("a step before there is one: %s", l.text)
		}
	}
}

// What is in files, in the environment, in arguments and on the control channel
// is nobody's business.
func TestOB04NoFramesNoSecrets(t *testing.T) {
	r, _ := traced(t, "trace")
	lines := logLines(t, r.Stderr)
	if len(lines) < 10 {
		t.Fatalf("only %d lines", len(lines))
	}
	for _, l := range lines {
		if strings.Contains(l.text, "sekrit") {
			t.Errorf("a content, a value or an argument: %s", l.text)
		}
		for _, frame := range []string{`"type":"exec"`, `\"type\"`, `"fds":`, `\"id\":`, "base64"} {
			if strings.Contains(l.text, frame) {
				t.Errorf("a message of the control channel (%s): %s", frame, l.text)
			}
		}
	}
}

func TestOB05Levels(t *testing.T) {
	severity := []string{"error", "warn", "info", "debug", "trace"}
	s := drive.New(t, nil)
	counts := map[string]int{}
	for i, level := range severity {
		r := s.Must(t, "run", "--log-level="+level, "--log-format=json", "--", "sh", "-c", "echo x > f"+level)
		lines := logLines(t, r.Stderr)
		for _, l := range lines {
			if slices.Index(severity, l.Level) > i {
				t.Errorf("--log-level=%s lets through: %s", level, l.text)
			}
		}
		counts[level] = len(lines)
	}
	if counts["error"]+counts["warn"] != 0 {
		t.Errorf("a run in which all goes well says %d and %d lines at error and warn", counts["error"], counts["warn"])
	}
	if counts["info"] == 0 || counts["debug"] <= counts["info"] || counts["trace"] < counts["debug"] {
		t.Errorf("lines by level: %v", counts)
	}
	// Info does not grow with the work.
	r := s.Must(t, "run", "--log-level=info", "--log-format=json", "--", "sh", "-c", "for i in $(seq 200); do echo $i > many$i; done; rm many*")
	if n := len(logLines(t, r.Stderr)); n > 2*counts["info"] {
		t.Errorf("%d lines at info for 400 mutations, %d for one", n, counts["info"])
	}
	if r := s.Do(t, "run", "--log-level=loud", "--", "true"); r.Code == 0 {
		t.Error("an unknown level is accepted")
	}
}

// Names from inside are data, in JSON and in text.
func TestLogInjection(t *testing.T) {
	s := drive.New(t, nil)
	const name = "a\n{\"level\":\"error\"}\x1b[2Jz"
	for _, format := range []string{"json", "text"} {
		r := s.Must(t, "run", "--log-level=trace", "--log-format="+format, "--", "touch", name+format)
		if strings.ContainsAny(r.Stderr, "\x1b") || strings.Contains(r.Stderr, "\n{\"level\":\"error\"}") {
			t.Errorf("%s: the name breaks out: %q", format, r.Stderr)
		}
		if !strings.Contains(r.Stderr, "[2Jz"+format) {
			t.Errorf("%s: the name is not in the log", format)
		}
	}
}
