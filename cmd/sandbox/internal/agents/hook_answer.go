package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/codeagent/sandbox/actors/api"
)

// MaxHookBytes bounds a question.
const MaxHookBytes = 16 << 20

// HookOptions say what becomes of a command.
type HookOptions struct {
	// Run are the words that the shell and its command are put behind: "sandbox run --".
	Run []string
	// Shell is the shell inside that gets the command as one argument, after -c.
	Shell string
	// Ask says why a person is to be asked before the command runs; empty: nobody is.
	Ask func(command string) string
}

// dialect is what a client asks and understands.
type dialect struct {
	name  string
	event string   // hook_event_name; hookEventName is the same
	tools []string // the shell tools' names
	// answer makes the answer from the tool's new input; ask is a question for a person.
	answer func(event string, input json.RawMessage, ask string) any
}

func dialects() []dialect {
	return []dialect{
		{"claude-code", "PreToolUse", []string{"Bash"}, decided("allow", "ask")},
		{"codex", "PreToolUse", []string{"Bash"}, decided("allow", "deny")},
		{"vscode", "PreToolUse", []string{"run_in_terminal"}, decided("allow", "ask")},
		{"gemini-cli", "BeforeTool", []string{"run_shell_command"}, merged},
		{"cursor", "preToolUse", []string{"Shell"}, permitted},
		{"opencode", "tool.execute.before", []string{"bash"}, bare},
	}
}

// HookClients are the names of those whose questions are understood.
func HookClients() []string {
	var names []string
	for _, d := range dialects() {
		names = append(names, d.name)
	}
	return names
}

// nothing is the answer that leaves a tool as it is.
const nothing = "{}\n"

// AnswerHook is what the client reads from the hook's stdout.
func AnswerHook(client string, question []byte, o HookOptions) ([]byte, error) {
	i := slices.IndexFunc(dialects(), func(d dialect) bool { return d.name == client })
	if i < 0 {
		return nil, fmt.Errorf("%q is not one of %s", client, strings.Join(HookClients(), ", "))
	}
	d := dialects()[i]
	if len(question) > MaxHookBytes {
		return nil, fmt.Errorf("the question is larger than %d MiB", MaxHookBytes>>20)
	}
	event, tool, input, err := d.read(question)
	if err != nil {
		return nil, fmt.Errorf("the question of %s: %w", client, err)
	}
	if event != "" && event != d.event || !slices.Contains(d.tools, tool) {
		return []byte(nothing), nil
	}
	command, err := text(input, "command")
	if err != nil {
		return nil, fmt.Errorf("the input of %s: %w", tool, err)
	}
	if strings.ContainsRune(command, 0) {
		return nil, errors.New("the command has a NUL byte: no shell can run it")
	}
	if client == "codex" && isPatch(command) {
		return []byte(nothing), nil
	}
	ask := ""
	if !OwnHook(command) {
		if o.Ask != nil {
			ask = o.Ask(command)
		}
		value, err := hookEncode(o.wrap(command))
		if err != nil {
			return nil, err
		}
		if input, err = jsoncSet(input, jsoncDialect{}, value, "command"); err != nil {
			return nil, fmt.Errorf("the input of %s: %w", tool, err)
		}
	} else if client != "opencode" {
		return []byte(nothing), nil // the client decides as it would without us
	}
	out, err := hookEncode(d.answer(d.event, input, ask))
	return append(out, '\n'), err
}

// read takes from a question what matters of it.
func (d dialect) read(question []byte) (event, tool string, input []byte, err error) {
	if !utf8.Valid(question) {
		return "", "", nil, errors.New("it is not UTF-8")
	}
	for _, key := range []string{"hook_event_name", "hookEventName"} {
		have, err := jsoncGet(question, jsoncDialect{}, key)
		if err != nil {
			return "", "", nil, err
		}
		if have != nil {
			if event, err = text(question, key); err != nil {
				return "", "", nil, err
			}
		}
	}
	if tool, err = text(question, "tool_name"); err != nil {
		return "", "", nil, err
	}
	input, err = jsoncGet(question, jsoncDialect{}, "tool_input")
	if err == nil && input == nil && slices.Contains(d.tools, tool) {
		err = errors.New("tool_input is missing")
	}
	return event, tool, input, err
}

// text is a member that must be there and be a string.
func text(doc []byte, key string) (string, error) {
	value, err := jsoncGet(doc, jsoncDialect{}, key)
	if err != nil {
		return "", err
	}
	if value == nil {
		return "", errors.New(key + " is missing")
	}
	var s *string
	if err := json.Unmarshal(value, &s); err != nil || s == nil {
		return "", errors.New(key + " is not a string")
	}
	return *s, nil
}

// wrap is the command line that the client's shell gets.
func (o HookOptions) wrap(command string) string {
	return api.ShellQuote(append(slices.Clone(o.Run), o.Shell, "-c", command)...)
}

// decided is the answer of Claude Code and of those that took it over.
func decided(yes, no string) func(string, json.RawMessage, string) any {
	return func(event string, input json.RawMessage, ask string) any {
		type specific struct {
			Event    string          `json:"hookEventName"`
			Decision string          `json:"permissionDecision"`
			Reason   string          `json:"permissionDecisionReason"`
			Input    json.RawMessage `json:"updatedInput,omitempty"`
		}
		out := specific{event, yes, "it runs in the sandbox, and what it changes can be undone", input}
		if ask != "" {
			out.Decision, out.Reason = no, ask
			if no == "deny" {
				out.Input = nil
			}
		}
		return map[string]specific{"hookSpecificOutput": out}
	}
}

// merged is Gemini CLI's answer. It says nothing of permission unless a person is to be
// asked: the client goes by its own settings then.
func merged(event string, input json.RawMessage, ask string) any {
	out := struct {
		Decision string `json:"decision,omitempty"`
		Reason   string `json:"reason,omitempty"`
		Specific any    `json:"hookSpecificOutput"`
	}{Specific: map[string]any{"hookEventName": event, "tool_input": input}}
	if ask != "" {
		out.Decision, out.Reason = "ask", ask
	}
	return out
}

// permitted is Cursor's answer. Its hook cannot ask.
func permitted(_ string, input json.RawMessage, ask string) any {
	type answer struct {
		Permission string          `json:"permission"`
		Message    string          `json:"user_message,omitempty"`
		Input      json.RawMessage `json:"updated_input,omitempty"`
	}
	if ask != "" {
		return answer{Permission: "deny", Message: ask}
	}
	return answer{Permission: "allow", Input: input}
}

// bare is the answer for a module that we wrote. It cannot ask either.
func bare(_ string, input json.RawMessage, ask string) any {
	if ask != "" {
		return map[string]string{"denied": ask}
	}
	return map[string]json.RawMessage{"tool_input": input}
}

// ownCommands are those of ours that an agent may run outside of the sandbox: they say what
// was done in the current folder, or undo it. None of them reads a file that it is given.
var ownCommands = map[string][]string{
	"undo": {"--dry-run", "--json"}, "redo": {"--dry-run", "--json"}, "restore": {"--dry-run", "--json", "--step"},
	"history": {"--json"}, "show": {"--json"}, "diff": {"--json"}, "status": {"--json"}, "pending": {"--json"},
}

// OwnHook reports whether a command line is nothing but one of those, in plain words. Nothing
// that chooses another folder or another log is, and nothing that overrides a barrier.
func OwnHook(command string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./ "
	if strings.ContainsFunc(command, func(r rune) bool { return !strings.ContainsRune(plain, r) }) {
		return false
	}
	words := strings.Fields(command)
	if len(words) < 2 || words[0] != "sandbox" {
		return false
	}
	flags, ok := ownCommands[words[1]]
	for _, w := range words[2:] {
		if strings.HasPrefix(w, "-") && !slices.Contains(flags, w) {
			return false
		}
	}
	return ok
}

// isPatch reports whether a command line is nothing but an edit that Codex performs
// itself, as it does those of its own tool: there is no program apply_patch that a shell
// inside would find. No shell expands a here document whose delimiter is quoted.
func isPatch(command string) bool {
	first, rest, _ := strings.Cut(command, "\n")
	delimiter, ok := strings.CutPrefix(first, "apply_patch <<'")
	delimiter, quoted := strings.CutSuffix(delimiter, "'")
	if !ok || !quoted || delimiter == "" || strings.ContainsAny(delimiter, "'\\ \t") {
		return false
	}
	lines := strings.Split(strings.TrimSuffix(rest, "\n"), "\n")
	last := len(lines) - 1
	return last > 1 && slices.Index(lines, delimiter) == last && lines[0] == "*** Begin Patch" && lines[last-1] == "*** End Patch"
}

func hookEncode(v any) ([]byte, error) {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return []byte(strings.TrimSuffix(out.String(), "\n")), err
}
