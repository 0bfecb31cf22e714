package console

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"
)

// promptTick is how often a prompt looks whether the decision came from
// elsewhere.
const promptTick = 100 * time.Millisecond

var errNoPrompt = errors.New("no terminal to ask on")

// keys are what is typed on a raw terminal.
type keys interface {
	// next waits for a byte, for promptTick at most. A terminal that is gone has Ctrl-D.
	next() (byte, bool)
	// flush drops what was typed and not read.
	flush()
}

// PromptTerminal is a terminal to ask on: on Windows its screen is another file than its keyboard.
type PromptTerminal struct{ in, out *os.File }

// Close closes it.
func (p PromptTerminal) Close() error {
	if p.out == p.in {
		return p.in.Close()
	}
	return errors.Join(p.in.Close(), p.out.Close())
}

// Ask asks on the terminal in any mode and leaves it in that mode.
func (p PromptTerminal) Ask(q PromptQuestion, gone <-chan struct{}) (a PromptAnswer, answered bool) {
	k, done, err := keysOf(p.in)
	if err != nil {
		return PromptAnswer{}, false
	}
	defer done()
	restore, err := raw(p.in, p.out)
	if err != nil {
		return PromptAnswer{}, false
	}
	defer restore()
	return prompt(k, p.out, q, gone)
}

// prompt asks on a raw terminal and waits for a line: what [PromptQuestion.answer] takes for
// a yes allows, anything else, Ctrl-C and Ctrl-D refuse. What was typed before the question
// does not answer it. answered is false when gone was closed or the deadline
// passed first.
func prompt(k keys, out io.Writer, q PromptQuestion, gone <-chan struct{}) (a PromptAnswer, answered bool) {
	say := func(s string) { _, _ = io.WriteString(out, strings.ReplaceAll(s, "\n", "\r\n")) }
	k.flush()
	say("\n\x1b[1msandbox:\x1b[0m " + q.Text + "\nAllow? (refused in " + Took(time.Until(q.Deadline).Round(time.Second)) + ") " + q.choices() + "[y/N] ")
	var line []byte
	for {
		select {
		case <-gone:
			say("\nsandbox: decided elsewhere\n")
			return PromptAnswer{}, false
		default:
		}
		if time.Now().After(q.Deadline) {
			say("\nsandbox: no answer, refused\n")
			return PromptAnswer{}, false
		}
		c, ok := k.next()
		if !ok {
			continue
		}
		switch {
		case c == '\r' || c == '\n':
			say("\n")
			return q.answer(string(line)), true
		case c == 3 || c == endOfFile: // Ctrl-C, Ctrl-D
			say("\n")
			return PromptAnswer{}, true
		case c == 127 || c == 8:
			if len(line) > 0 {
				line = line[:len(line)-1]
				say("\b \b")
			}
		case c >= ' ' && c < 127 && len(line) < 16:
			line = append(line, c)
			say(string(rune(c)))
		}
	}
}

// given is what a prompt returned.
type given struct {
	PromptAnswer
	answered bool
}

// await waits for the answer to a question that a relay puts, until the command has ended, and with it the question, or gone is closed.
func await(result <-chan given, ended, gone <-chan struct{}) (a PromptAnswer, answered bool) {
	select {
	case r := <-result:
		return r.PromptAnswer, r.answered
	case <-ended:
	case <-gone:
	}
	select {
	case r := <-result: // it was answered just before
		return r.PromptAnswer, r.answered
	default:
		return PromptAnswer{}, false
	}
}
