package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// hook is the place in a client's files from which it asks a program before it runs a
// tool.
type hook struct {
	file  func(Places, Scope) (string, error)
	shape shape
	event string
	tools string // the matcher
}

// shape is how a client writes a hook down.
type shape int

const (
	grouped   shape = iota // a matcher, and a list of hooks
	versioned              // a command with a matcher, in a file with a version
	flat                   // a command for every tool
	plugin                 // a module that asks us
)

// hookPart is the part of a client's files with the hook.
func (c Client) hookPart(p Places, s Scope, w Want) (Part, error) {
	file, err := c.hook.file(p, s)
	if err != nil {
		return Part{}, err
	}
	if c.hook.shape == plugin {
		text, err := pluginText(shellWords(w.Hook))
		part := ownFile("the hook", file, text, w.Force)
		part.pristine = func(text []byte) bool {
			made, err := pluginText(pluginWords(text))
			return err == nil && made == string(text)
		}
		return part, err
	}
	for _, v := range c.servers.variables {
		if c.Name == "gemini-cli" && strings.Contains(w.Hook, v) {
			return Part{}, fmt.Errorf("%s would replace what begins with %s in %q", c.Title, v, w.Hook)
		}
	}
	path := []string{"hooks", c.hook.event}
	return Part{
		What: "the hook", File: file,
		add: func(text []byte) ([]byte, error) {
			if c.hook.shape == versioned {
				if have, err := jsoncGet(text, c.dialect, "version"); err != nil {
					return nil, err
				} else if have == nil {
					if text, err = jsoncSet(text, c.dialect, []byte("1"), "version"); err != nil {
						return nil, err
					}
				}
			}
			return c.addHook(text, w, path)
		},
		remove: func(text []byte) ([]byte, error) { return c.removeHook(text, w, path) },
		prune: func(text []byte) ([][]byte, error) {
			steps, err := pruned(text, c.dialect, path...)
			if err != nil || c.hook.shape != versioned || len(steps) == 0 {
				return steps, err
			}
			last := steps[len(steps)-1]
			if all, err := jsoncGet(last, c.dialect); err != nil || string(all) != `{"version":1}` {
				return steps, err
			}
			last, err = jsoncRemove(last, c.dialect, "version")
			return append(steps, last), err
		},
	}, nil
}

// hookEntry is the element of the client's list of hooks.
func (c Client) hookEntry(command string) ([]byte, error) {
	type run struct {
		Name    string `json:"name,omitempty"`
		Type    string `json:"type"`
		Command string `json:"command"`
	}
	switch c.hook.shape {
	case grouped:
		one := run{Type: "command", Command: command}
		if c.Name == "gemini-cli" {
			one.Name = "sandbox"
		}
		return encode(struct {
			Matcher string `json:"matcher"`
			Hooks   []run  `json:"hooks"`
		}{c.hook.tools, []run{one}})
	case versioned:
		return encode(struct {
			Command    string `json:"command"`
			Matcher    string `json:"matcher"`
			FailClosed bool   `json:"failClosed"`
		}{command, c.hook.tools, true})
	}
	return encode(run{Type: "command", Command: command})
}

// addHook puts the hook at the end of the client's list, or in the place of ours.
func (c Client) addHook(text []byte, w Want, path []string) ([]byte, error) {
	value, err := c.hookEntry(w.Hook)
	if err != nil {
		return nil, err
	}
	items, err := jsoncItems(text, c.dialect, path...)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if string(item) == string(value) {
			return text, nil
		}
	}
	if text, err = c.removeHook(text, w, path); err != nil {
		return nil, err
	}
	return jsoncAppend(text, c.dialect, value, path...)
}

// removeHook takes our hooks away. It returns text itself when there is none.
func (c Client) removeHook(text []byte, w Want, path []string) ([]byte, error) {
	items, err := jsoncItems(text, c.dialect, path...)
	if err != nil {
		return nil, err
	}
	for i := len(items) - 1; i >= 0; i-- {
		ours, alone := c.hookIsOurs(items[i], w)
		if !ours {
			continue
		}
		if !alone {
			return nil, fmt.Errorf("our hook stands in one group with others in %q: take it out by hand", strings.Join(path, "."))
		}
		if text, err = jsoncRemoveItem(text, c.dialect, i, path...); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// hookIsOurs reports whether an element starts this program's hook, and nothing beside it.
func (c Client) hookIsOurs(item []byte, w Want) (ours, alone bool) {
	type run struct{ Command string }
	var entry struct {
		run
		Hooks []run
	}
	if json.Unmarshal(item, &entry) != nil {
		return false, false
	}
	all := entry.Hooks
	if c.hook.shape != grouped {
		all = []run{entry.run}
	}
	for _, r := range all {
		words := shellWords(r.Command)
		ours = ours || starts(words, "hook", w.Server.Command) && len(words) > 2 && words[2] == c.Name
	}
	return ours, len(all) == 1
}

// shellWords splits a command line as far as ours are written: words in single quotes,
// or without any.
func shellWords(line string) []string {
	var words []string
	word, inWord, quoted, escaped := "", false, false, false
	for _, r := range line {
		switch {
		case escaped:
			word, escaped = word+string(r), false
		case r == '\'':
			quoted, inWord = !quoted, true
		case quoted:
			word += string(r)
		case r == '\\':
			escaped, inWord = true, true
		case r == ' ' || r == '\t' || r == '\n':
			if inWord {
				words = append(words, word)
			}
			word, inWord = "", false
		default:
			word, inWord = word+string(r), true
		}
	}
	if inWord {
		words = append(words, word)
	}
	return words
}

// pluginWords is the command line in a text that pluginText has made.
func pluginWords(text []byte) (words []string) {
	for line := range strings.SplitSeq(string(text), "\n") {
		var program string
		var args []string
		if value, ok := strings.CutPrefix(line, "const program = "); ok && json.Unmarshal([]byte(value), &program) == nil {
			words = []string{program}
		}
		if value, ok := strings.CutPrefix(line, "const args = "); ok && json.Unmarshal([]byte(value), &args) == nil {
			words = append(words, args...)
		}
	}
	return words
}

// pluginText is a module of opencode: it asks the hook about each command, and if it gets
// no answer, the command does not run.
func pluginText(words []string) (string, error) {
	if len(words) == 0 {
		return "", errors.New("the hook has no command")
	}
	program, err := encode(words[0])
	if err != nil {
		return "", err
	}
	args, err := encode(words[1:])
	if err != nil {
		return "", err
	}
	return `// ` + marker + `
// opencode's shell commands go through the sandbox. The hook answers with the command to
// run instead; if it fails, the command does not run.
import { spawnSync } from "node:child_process"

const program = ` + string(program) + `
const args = ` + string(args) + `

export const Sandbox = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    if (input.tool !== "bash") return
    const question = { hook_event_name: "tool.execute.before", tool_name: input.tool, tool_input: output.args, cwd: directory }
    const done = spawnSync(program, args, { input: JSON.stringify(question), encoding: "utf8", cwd: directory, maxBuffer: 64 << 20 })
    if (done.error || done.status !== 0) {
      throw new Error("the sandbox's hook failed: " + (done.error ? done.error.message : done.stderr))
    }
    const answer = JSON.parse(done.stdout)
    if (answer.denied) throw new Error(answer.denied)
    Object.assign(output.args, answer.tool_input)
  },
})
`, nil
}
