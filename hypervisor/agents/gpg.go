package agents

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Of gpg-agent's protocol, Assuan, and of libgpg-error: an error's number has its source, gpg-agent, in its upper bits.
const (
	maxLine    = 1000     // bytes, without its end
	maxData    = 64 << 10 // of an answer
	maxGrips   = 24       // that one line asks for: no more have room
	gripLength = 40       // hexadecimal digits
	fromAgent  = 4 << 24
	forbidden  = fromAgent | 251
	noAgent    = fromAgent | 77
	noKey      = fromAgent | 17
	maxInquiry = 8 // of one answer
)

var errForbidden = errors.New("it does not pass")

// OpenPGP is the kind of a signature that gpg makes.
const OpenPGP Kind = "openpgp"

// request is a line of a program's, taken apart.
type request struct {
	verb string
	line string // for the agent; empty: the agent is not asked
	grip string // of the key that a SIGKEY chooses
}

// parseRequest takes a line of a program's apart. What it returns is put together anew: nothing of the line that is not understood reaches the agent.
func parseRequest(line string) (request, error) {
	if len(line) > maxLine || strings.ContainsFunc(line, func(c rune) bool { return c < ' ' || c > '~' }) {
		return request{}, errMalformed
	}
	verb, rest, _ := strings.Cut(line, " ")
	q := request{verb: strings.ToUpper(verb)}
	args := strings.Fields(rest)
	switch q.verb {
	case "NOP", "BYE", "RESET":
		if len(args) > 0 {
			return q, errMalformed
		}
		if q.verb == "RESET" {
			q.line = q.verb
		}
		return q, nil
	case "SETKEYDESC": // the agent's user reads ours
		return q, nil
	case "OPTION", "GETINFO":
		return q, q.setting(args)
	case "HAVEKEY", "KEYINFO", "READKEY", "SIGKEY", "SETKEY":
		return q, q.keys(args)
	case "SETHASH":
		return q, q.hash(args)
	case "PKSIGN":
		if len(args) > 0 && (args[0] != "--" || len(args) > 2) { // behind it, the name of a passphrase that the agent remembers for a key just made
			return q, errMalformed
		}
		q.line = q.verb
		return q, nil
	}
	return q, errForbidden
}

// setting is what changes or asks for how the agent works.
func (q *request) setting(args []string) error {
	text := strings.Join(args, " ")
	version, isVersion := strings.CutPrefix(text, "agent-awareness=")
	switch {
	case q.verb == "GETINFO" && text == "restricted": // it is, whatever socket the relay uses
		return nil
	case q.verb == "GETINFO" && text == "version":
	case q.verb == "OPTION" && isVersion && version != "" && strings.Trim(version, "0123456789.") == "":
	default:
		return errForbidden
	}
	q.line = q.verb + " " + text
	return nil
}

// keys is what names keys by their grips.
func (q *request) keys(args []string) error {
	if q.verb == "HAVEKEY" && len(args) == 1 && (args[0] == "--list" || args[0] == "--list=1000") {
		q.line = q.verb + " " + args[0]
		return nil
	}
	if len(args) == 0 || len(args) > maxGrips || len(args) > 1 && q.verb != "HAVEKEY" {
		return errMalformed
	}
	for i, a := range args {
		if !isGrip(a) {
			return errMalformed
		}
		args[i] = strings.ToUpper(a)
	}
	if q.verb == "SETKEY" { // another name
		q.verb = "SIGKEY"
	}
	if q.verb == "SIGKEY" {
		q.grip = args[0]
	}
	q.line = q.verb + " " + strings.Join(args, " ")
	return nil
}

// hash is what will be signed.
func (q *request) hash(args []string) error {
	if len(args) != 2 || len(args[1]) < 32 || len(args[1]) > 128 || !isHex(args[1]) {
		return errMalformed
	}
	name, named := strings.CutPrefix(args[0], "--hash=")
	number, err := strconv.ParseUint(args[0], 10, 8)
	switch {
	case err == nil:
		args[0] = strconv.FormatUint(number, 10)
	case !named || name == "" || len(name) > 16 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return errMalformed
	}
	q.line = q.verb + " " + args[0] + " " + strings.ToUpper(args[1])
	return nil
}

func isGrip(text string) bool { return len(text) == gripLength && isHex(text) }

func isHex(text string) bool { return strings.Trim(text, "0123456789abcdefABCDEF") == "" }

// reply collects the agent's answer to one line.
type reply struct {
	lines   []string // for the program, the last one is OK or ERR
	data    strings.Builder
	size    int
	inquiry int
}

// add takes a line of the agent's. done: the answer is complete; inquired: the agent waits for data, which nobody gives it.
func (r *reply) add(verb, line string) (done, inquired bool, err error) {
	kind, rest, _ := strings.Cut(line, " ")
	if r.size += len(line); r.size > maxData {
		return false, false, fmt.Errorf("it answers with more than %d bytes", maxData)
	}
	switch {
	case kind == "OK":
		r.lines = append(r.lines, "OK")
		if verb == "PKSIGN" && !strings.HasPrefix(r.data.String(), "(7:sig-val") {
			return false, false, errors.New("it answers with no signature")
		}
		return true, false, nil
	case kind == "ERR":
		number, _, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil || n == 0 {
			return false, false, errMalformed
		}
		r.lines = []string{errorLine(uint32(n))}
		return true, false, nil
	case kind == "D":
		r.lines = append(r.lines, line)
		r.data.WriteString(rest)
	case kind == "S":
		if verb == "KEYINFO" && strings.HasPrefix(rest, "KEYINFO ") {
			r.lines = append(r.lines, line)
		}
	case kind == "INQUIRE":
		if r.inquiry++; r.inquiry > maxInquiry {
			return false, false, errors.New("it asks for data again and again")
		}
		return false, true, nil
	case !strings.HasPrefix(line, "#"):
		return false, false, errMalformed
	}
	return false, false, nil
}

func errorLine(number uint32) string {
	what := "the sandbox's agent"
	switch number {
	case forbidden:
		what = "Forbidden"
	case noAgent:
		what = "No agent running"
	}
	return fmt.Sprintf("ERR %d %s", number, what)
}

// description is what the agent's user reads if it asks for a passphrase. What a program says there does not reach it.
func description(u Use) string {
	return "SETKEYDESC " + url.QueryEscape("A program in a sandbox wants to "+u.String()+".")
}
