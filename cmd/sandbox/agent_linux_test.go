package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// asking are how clients ask before they run a command: the file with the hook, the
// question with the command in place of COMMAND, and where the answer has the new one.
var asking = map[string]struct{ file, question, answer string }{
	"claude-code": {".claude/settings.json", `{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":COMMAND,"description":"d"}}`, "hookSpecificOutput.updatedInput.command"},
	"codex":       {".codex/hooks.json", `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":COMMAND}}`, "hookSpecificOutput.updatedInput.command"},
	"gemini-cli":  {".gemini/settings.json", `{"hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":COMMAND}}`, "hookSpecificOutput.tool_input.command"},
	"cursor":      {".cursor/hooks.json", `{"hook_event_name":"preToolUse","tool_name":"Shell","tool_input":{"command":COMMAND}}`, "updated_input.command"},
	"vscode":      {".copilot/hooks/sandbox.json", `{"hookEventName":"PreToolUse","tool_name":"run_in_terminal","tool_input":{"command":COMMAND}}`, "hookSpecificOutput.updatedInput.command"},
}

// scriptAgent plays a client: it finds the hook in the client's file, asks it, and runs
// what it answers; without an answer, the command itself.
func scriptAgent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: agent CLIENT COMMAND")
	}
	a, command := asking[args[0]], args[1]
	settings, err := os.ReadFile(ts.Getenv("HOME") + "/" + a.file)
	ts.Check(err)
	var doc any
	ts.Check(json.Unmarshal(settings, &doc))
	quoted, err := json.Marshal(command)
	ts.Check(err)

	run := func(line string, stdin string) string {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Stdin = ts.MkAbs("."), strings.NewReader(stdin)
		for _, name := range []string{"HOME", "PATH", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "GORACE"} {
			cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
		}
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		ts.Logf("%s\n%s%s", line, out.String(), errs.String())
		if err != nil {
			ts.Fatalf("%s: %v", line, err)
		}
		return out.String()
	}
	answer := run(hookIn(doc), strings.Replace(a.question, "COMMAND", string(quoted), 1))
	ts.Check(json.Unmarshal([]byte(answer), &doc))
	for key := range strings.SplitSeq(a.answer, ".") {
		m, _ := doc.(map[string]any)
		doc = m[key]
	}
	if instead, ok := doc.(string); ok {
		command = instead
	}
	run(command, "")
}

// hookIn finds the command of our hook, wherever it is.
func hookIn(doc any) string {
	switch v := doc.(type) {
	case map[string]any:
		if c, ok := v["command"].(string); ok && strings.Contains(c, " hook ") {
			return c
		}
		for _, e := range v {
			if c := hookIn(e); c != "" {
				return c
			}
		}
	case []any:
		for _, e := range v {
			if c := hookIn(e); c != "" {
				return c
			}
		}
	}
	return ""
}
