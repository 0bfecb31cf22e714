package agents

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the answers")

var options = HookOptions{
	Run: []string{"/opt/my tools/sandbox", "run", "--keep", "10m", "--"}, Shell: "bash",
	Ask: func(command string) string {
		if strings.HasPrefix(command, "rm ") {
			return "destructive: it deletes"
		}
		return ""
	},
}

// TestGolden: questions as the clients document them, and what we answer.
func TestGolden(t *testing.T) {
	questions, err := filepath.Glob("testdata/*.question.json")
	if err != nil || len(questions) == 0 {
		t.Fatal(questions, err)
	}
	for _, file := range questions {
		name := strings.TrimSuffix(filepath.Base(file), ".question.json")
		client, _, _ := strings.Cut(name, "_")
		t.Run(name, func(t *testing.T) {
			question, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			have, err := AnswerHook(client, question, options)
			if err != nil {
				have = []byte("error: " + err.Error() + "\n")
			} else if !json.Valid(have) {
				t.Errorf("no JSON: %s", have)
			}
			golden := filepath.Join("testdata", name+".answer.json")
			if *update {
				if err := os.WriteFile(golden, have, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(have, want) {
				t.Errorf("%v; got\n%swant\n%s", err, have, want)
			}
		})
	}
}

// TestEveryClientHasGolden finds a client without a documented question.
func TestEveryClientHasGolden(t *testing.T) {
	for _, c := range HookClients() {
		if found, _ := filepath.Glob("testdata/" + c + "_*.question.json"); len(found) == 0 {
			t.Errorf("testdata has no question of %s", c)
		}
	}
	if _, err := AnswerHook("emacs", []byte("{}"), options); err == nil {
		t.Error("an unknown client is answered")
	}
}

// said returns the command line that an answer of Claude Code has the client run.
func said(t interface{ Fatalf(string, ...any) }, answer []byte) string {
	var a struct {
		Out struct {
			Input struct{ Command string } `json:"updatedInput"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	return a.Out.Input.Command
}

func question(t interface{ Fatalf(string, ...any) }, command string) []byte {
	q, err := json.Marshal(map[string]any{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": map[string]any{"command": command}})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return q
}

// TestTheCommandIsOneWord asks a real shell what it makes of the command line.
func TestTheCommandIsOneWord(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	check := func(t interface{ Fatalf(string, ...any) }, command string) {
		answer, err := AnswerHook("claude-code", question(t, command), HookOptions{Run: []string{"printf", `%s\0`}, Shell: "sh"})
		if err != nil {
			t.Fatalf("%q: %v", command, err)
		}
		out, err := exec.Command(sh, "-c", said(t, answer)).Output()
		if want := strings.Join([]string{"sh", "-c", command}, "\x00") + "\x00"; err != nil || string(out) != want {
			t.Fatalf("%q became %q: %v, %q", command, said(t, answer), err, out)
		}
	}
	for _, command := range []string{
		"", " ", "-c", "--", "ls", "a'b", `'`, `''`, `'"'"'`, `\`, `\'`, "a\nb", "a\r\nb", "$(touch /tmp/x)", "`id`", "${HOME}", "!!", "a;b", "a&&b", "a|b", "a>b",
		"$'\\n'", "#", "~", "*", "{a,b}", "\t", "é", "\u2028", "<<E\nx\nE\n", "echo '\\''", "\x1b[0m", strings.Repeat("'", 100),
	} {
		check(t, command)
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"'", `"`, `\`, "$", "`", "(", ")", "a", " ", "\n", ";", "&", "!", "#", "ß", "-"}), 0, 8).Draw(t, "command"), ""))
	})
}

func TestOwn(t *testing.T) {
	for command, want := range map[string]bool{
		"sandbox undo": true, "sandbox undo 3 --dry-run": true, "sandbox  history --json": true, "sandbox restore src/a.go --step 3": true,
		"sandbox undo --force": false, "sandbox undo -C /other": false, "sandbox undo --working-dir /x": false, "sandbox undo --undo-dir /x": false,
		"sandbox undo; rm x": false, "sandbox undo && rm x": false, "sandbox undo\nrm x": false, "sandbox undo $(rm x)": false, "sandbox undo | sh": false,
		"sandbox run -- rm x": false, "sandbox approve 1": false, "sandbox stop": false, "sandbox": false, "sandbox gc": false, "./sandbox undo": false,
		"sandboxx undo": false, "x sandbox undo": false, "A=b sandbox undo": false, "sandbox undo > x": false, "sandbox config show": false,
	} {
		if OwnHook(command) != want {
			t.Errorf("%q: %v", command, !want)
		}
	}
}

func TestWhatIsNotUnderstoodIsAnError(t *testing.T) {
	for _, q := range []string{
		"", "null", "[]", "{", `{"tool_name": 1}`, `{"tool_name": null}`, `{"hook_event_name": 1, "tool_name": "Bash"}`, `{}`,
		`{"tool_name": "Bash"}`, `{"tool_name": "Bash", "tool_input": null}`, `{"tool_name": "Bash", "tool_input": "ls"}`, `{"tool_name": "Bash", "tool_input": []}`,
		`{"tool_name": "Bash", "tool_input": {}}`, `{"tool_name": "Bash", "tool_input": {"command": null}}`, `{"tool_name": "Bash", "tool_input": {"command": ["ls"]}}`,
		`{"tool_name": "Bash", "tool_input": {"command": "a\u0000b"}}`, "{\"tool_name\": \"Bash\", \"tool_input\": {\"command\": \"\xff\"}}",
		`{"tool_name": "Read", "tool_name": "Bash", "tool_input": {"command": "ls"}}`, `{"tool_name": "Bash", "tool_input": {"command": "ls", "command": "rm"}}`,
		`{"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_input": {"command": "rm"}}`, `{"tool_name": "Bash", "tool_input": {"command": "ls"}} {}`,
	} {
		if out, err := AnswerHook("claude-code", []byte(q), options); err == nil {
			t.Errorf("%s is answered: %s", q, out)
		}
	}
	large := slices.Concat([]byte(`{"tool_name": "Bash", "x": "`), bytes.Repeat([]byte("x"), MaxHookBytes), []byte(`"}`))
	if _, err := AnswerHook("claude-code", large, options); err == nil {
		t.Error("a question of any size is read")
	}
}

// FuzzAnswer: whatever is asked, either nothing is touched, or the new command is the old
// one behind ours, and all other fields are as they were.
func FuzzAnswer(f *testing.F) {
	files, err := filepath.Glob("testdata/*.question.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		q, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(q)
	}
	f.Add([]byte(`{"tool_name":"Bash","tool_input":{"command":"a'b","command ":1}}`))
	f.Fuzz(func(t *testing.T, q []byte) {
		before := bytes.Clone(q)
		for _, client := range HookClients() {
			out, err := AnswerHook(client, q, options)
			if !bytes.Equal(q, before) {
				t.Fatal("the question was changed")
			}
			if err != nil {
				continue
			}
			if !json.Valid(out) {
				t.Fatalf("%s: %q", client, out)
			}
			if client == "claude-code" && string(out) != nothing {
				sameInput(t, q, out)
			}
		}
	})
}

func sameInput(t *testing.T, q, out []byte) {
	var asked struct {
		Input map[string]json.RawMessage `json:"tool_input"`
	}
	var answered struct {
		Out struct {
			Input map[string]json.RawMessage `json:"updatedInput"`
		} `json:"hookSpecificOutput"`
	}
	// encoding/json takes TOOL_INPUT for tool_input, too; the clients do not.
	if bytes.Count(bytes.ToLower(q), []byte("tool_input")) != 1 || bytes.Contains(q, []byte(`\u`)) || bytes.HasPrefix(q, []byte("\ufeff")) {
		return
	}
	if err := json.Unmarshal(q, &asked); err != nil {
		t.Fatalf("%v: %q", err, q)
	}
	if err := json.Unmarshal(out, &answered); err != nil {
		t.Fatal(err)
	}
	for key, want := range asked.Input {
		have := answered.Out.Input[key]
		if key == "command" {
			var command, line string
			if json.Unmarshal(want, &command) != nil || json.Unmarshal(have, &line) != nil || line != options.wrap(command) {
				t.Fatalf("%q became %q", want, have)
			}
			continue
		}
		var x, y bytes.Buffer
		if json.Compact(&x, want) != nil || json.Compact(&y, have) != nil || !bytes.Equal(x.Bytes(), y.Bytes()) {
			t.Fatalf("%s: %q became %q", key, want, have)
		}
	}
	if len(asked.Input) != len(answered.Out.Input) {
		t.Fatalf("%q became %q", q, out)
	}
}

// TestPatch: an edit that Codex performs itself is left to it, and nothing that a shell
// would expand or go on with.
func TestPatch(t *testing.T) {
	const body = "*** Begin Patch\n*** Delete File: a\n*** End Patch\n"
	for command, want := range map[string]bool{
		"apply_patch <<'EOF'\n" + body + "EOF\n":                                                true,
		"apply_patch <<'EOF'\n" + body + "EOF":                                                  true,
		"apply_patch <<'PATCH'\n" + body + "PATCH":                                              true,
		"apply_patch <<EOF\n" + body + "EOF\n":                                                  false,
		"apply_patch <<''\n" + body + "\n":                                                      false,
		"apply_patch <<'EOF'; rm -r .\n" + body + "EOF\n":                                       false,
		"apply_patch <<'EOF' >b 'c'\n" + body + "EOF' >b 'c\n":                                  false,
		"apply_patch <<'EOF'\n" + body + "EOF\nrm -r .\n":                                       false,
		"apply_patch <<'EOF'\n" + body + "EOF\n\n":                                              false,
		"apply_patch <<'EOF'\n*** Begin Patch\nEOF\nrm -r .\ncat <<'EOF'\n*** End Patch\nEOF\n": false,
		"apply_patch <<'EOF'\nrm -r .\nEOF\n":                                                   false,
		"apply_patch <<'EOF'\nEOF":                                                              false,
		"apply_patch <<'EOF'":                                                                   false,
		"apply_patch":                                                                           false,
		" apply_patch <<'EOF'\n" + body + "EOF\n":                                               false,
		"cd .. && apply_patch <<'EOF'\n" + body + "EOF\n":                                       false,
	} {
		if isPatch(command) != want {
			t.Errorf("%q: %v", command, !want)
		}
	}
}
