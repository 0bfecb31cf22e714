package observe

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/drive"
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
const work = `echo sekrit-content > a; mkdir d; echo x > d/b; mv a c; rm d/b; ln -s c l; chmod 600 c; truncate -s 0 c; echo $SEKRIT_ENV >/dev/null; echo sekrit-new > old`

func TestOB01StderrIsJSONLines(t *testing.T) {
	stamp := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)
	components := []string{"fs_backend", "control", "undo", "file_watcher", "stdio_api", "mcp", "session", "safeguard", "cli"}
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			stderr := w.do(t, folder(t), work, false, "--log-level", "trace")
			lines := logLines(t, stderr)
			if len(lines) < 10 {
				t.Fatalf("only %d lines: %s", len(lines), stderr)
			}
			if n := strings.Count(stderr, "\n"); w.name != "run" && len(lines) != n {
				t.Errorf("%d of %d lines are objects: %s", len(lines), n, stderr)
			}
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
		})
	}
}

// What is logged about a request, and about the step that it asked for, has the
// request's id.
func TestOB02RequestID(t *testing.T) {
	for _, w := range serving() {
		t.Run(w.name, func(t *testing.T) {
			lines := logLines(t, w.do(t, folder(t), work, true, "--log-level", "debug"))
			for _, want := range []struct{ message, id string }{
				{"request received", w.execute}, {"step started", w.execute}, {"command dispatched", w.execute},
				{"preimage captured", w.execute}, {"step committed", w.execute}, {"step completed", w.execute}, {"response sent", w.execute},
				{"request received", w.undone}, {"undo executed", w.undone}, {"response sent", w.undone},
			} {
				if !slices.ContainsFunc(lines, func(l line) bool { return l.Message == want.message && l.Request == want.id }) {
					t.Errorf("no line %q with request_id %q", want.message, want.id)
				}
			}
			for _, l := range lines {
				if (l.Message == "request received" || l.Message == "response sent") && l.Request == "" {
					t.Errorf("no request_id: %s", l.text)
				}
			}
		})
	}
}

func TestOB03StepID(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			s := folder(t)
			stderr := w.do(t, s, work, false, "--log-level", "debug")
			lines := logLines(t, stderr)
			history := s.History(t)
			id := history[len(history)-1].StepID
			from := slices.IndexFunc(lines, func(l line) bool { return l.Message == "step started" })
			to := slices.IndexFunc(lines, func(l line) bool { return l.Message == "step completed" })
			if from < 0 || to < from {
				t.Fatalf("no step in the log: %s", stderr)
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
		})
	}
}

// What is in files, in the environment, in arguments and on the channels of the
// protocols is nobody's business.
func TestOB04NoFramesNoSecrets(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			lines := logLines(t, w.do(t, folder(t), work, true, "--log-level", "trace"))
			if len(lines) < 10 {
				t.Fatalf("only %d lines", len(lines))
			}
			for _, l := range lines {
				if strings.Contains(l.text, "sekrit") {
					t.Errorf("a content, a value or an argument: %s", l.text)
				}
				for _, frame := range []string{`"type":"exec"`, `\"type\"`, `"fds":`, `\"id\":`, `jsonrpc`, `payload`, "base64"} {
					if strings.Contains(l.text, frame) {
						t.Errorf("a message of a protocol (%s): %s", frame, l.text)
					}
				}
			}
		})
	}
}

func TestOB05Levels(t *testing.T) {
	severity := []string{"error", "warn", "info", "debug", "trace"}
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			s := folder(t)
			counts := map[string]int{}
			for i, level := range severity {
				lines := logLines(t, w.do(t, s, "echo x > f"+level, false, "--log-level="+level))
				own := 0
				for _, l := range lines {
					if l.Level == level {
						own++
					}
					if slices.Index(severity, l.Level) > i {
						t.Errorf("--log-level=%s lets through: %s", level, l.text)
					}
				}
				counts[level] = len(lines)
				// Two runs differ by lines that depend on time: each run is held
				// against itself.
				if i >= 2 && i <= 3 && own == 0 {
					t.Errorf("--log-level=%s adds no line of that level: %v", level, lines)
				}
			}
			if counts["error"]+counts["warn"] != 0 {
				t.Errorf("a session in which all goes well says %d and %d lines at error and warn", counts["error"], counts["warn"])
			}
			// Info does not grow with the work.
			many := "for i in $(seq 200); do echo $i > many$i; done; rm many*"
			if n := len(logLines(t, w.do(t, s, many, false, "--log-level=info"))); n > counts["info"]+100 {
				t.Errorf("%d lines at info for 400 mutations, %d for one", n, counts["info"])
			}
		})
	}
	if r := drive.New(t, nil).Do(t, "run", "--log-level=loud", "--", "true"); r.Code == 0 {
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
