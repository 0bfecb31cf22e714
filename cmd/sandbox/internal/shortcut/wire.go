package shortcut

import (
	"time"
	"unicode/utf8"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/stepline"
)

// maxRequest is [control.MaxRequest].
const maxRequest = 1 << 20

// ask is the line that asks a session to run a command. ok is false if it cannot be sent.
func ask(l line, env []string, dir string) (request []byte, ok bool) {
	w := writer{valid: true}
	w.raw(`{"id":` + stepline.Decimal(Request) + `,"method":"run","params":{"argv":`)
	w.list(l.argv)
	w.raw(`,"env":`)
	w.list(env)
	w.raw(`,"dir":`)
	w.text(dir)
	w.numbers(`,"further":[`, l.further)
	w.numbers(`,"ignored":[`, l.ignored)
	if l.asks {
		w.raw(`,"asks":true`)
	}
	w.duration(`,"timeout_ns":`, l.limit)
	w.raw(`,"wants":{`)
	if l.folder != "" {
		w.raw(`"directories":[{"Path":`)
		w.text(l.folder)
		w.raw(`,"Label":"","ReadOnly":false,"UndoDir":`)
		w.text(l.undo)
		w.raw(`}]`)
		w.duration(`,"keep_ns":`, l.keep)
	} else {
		w.duration(`"keep_ns":`, l.keep)
	}
	w.raw(`}},"fds":` + stepline.Decimal(int64(3+len(l.further))) + "}\n")
	return w.b, w.valid && len(w.b) <= maxRequest
}

// writer writes JSON.
type writer struct {
	b     []byte
	valid bool // no text was other than UTF-8
}

func (w *writer) raw(s string) { w.b = append(w.b, s...) }

func (w *writer) duration(key string, d time.Duration) {
	if d != 0 {
		w.raw(key + stepline.Decimal(int64(d)))
	}
}

func (w *writer) numbers(start string, all []int) {
	for _, n := range all {
		w.raw(start + stepline.Decimal(int64(n)))
		start = ","
	}
	if len(all) > 0 {
		w.raw("]")
	}
}

func (w *writer) list(all []string) {
	w.raw("[")
	for i, s := range all {
		if i > 0 {
			w.raw(",")
		}
		w.text(s)
	}
	w.raw("]")
}

func (w *writer) text(s string) {
	const hex = "0123456789abcdef"
	w.valid = w.valid && utf8.ValidString(s)
	w.raw(`"`)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			w.b = append(w.b, '\\', c)
		case c < ' ':
			w.b = append(w.b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			w.b = append(w.b, c)
		}
	}
	w.raw(`"`)
}

// What the lines of an answer begin with, all of them but the last to their ends.
const (
	accepted = `{"id":1,"part":{"accepted":true}}`
	started  = `{"id":1,"part":{"started":{`
	result   = `{"id":1,"result":{"step_id":`
)

// ended is how a command ended, and what is to be told about that.
type ended struct {
	status int
	signal int // that ended it, or 0
	step   int64
	paths  int    // that the step changed; 0: there is nothing to tell
	folder string // in which
}

// read says what is known from an answer so far. Over means that the command has ended like that, and
// that nothing else is to be told; strange, that there is, or that this is no answer that is expected.
func read(answer []byte) (end ended, over, strange bool) {
	for rest := string(answer); ; {
		one, next, whole := cut(rest, "\n")
		if !whole {
			return ended{}, false, false
		}
		if s, ok := after(one, result); ok {
			end, over = readEnd(s)
			return end, over, !over
		}
		if one != accepted && !begins(one, started) {
			return ended{}, false, true
		}
		rest = next
	}
}

// readEnd reads a result behind [result]: that of a command of which at most its changes are to be told.
func readEnd(s string) (end ended, ok bool) {
	field := func(key string) (n int) { // a number behind a key
		if s, ok = after(s, key); ok {
			n, s, ok = number(s)
		}
		return n
	}
	if field(""); !ok {
		return end, false
	}
	if end.status = field(`,"exit_code":`); !ok {
		return end, false
	}
	if begins(s, `,"signal":`) {
		if end.signal = field(`,"signal":`); !ok {
			return end, false
		}
	}
	if field(`,"duration_ns":`); !ok {
		return end, false
	}
	if s, ok = after(s, `,"outcome":"completed"`); !ok || s == "}}" {
		return end, ok
	}
	if end.step = int64(field(`,"only":{"step_id":`)); !ok {
		return end, false
	}
	if end.paths = field(`,"affected_count":`); !ok {
		return end, false
	}
	if s, ok = after(s, `,"directory":"`); !ok {
		return end, false
	}
	end.folder, s, ok = cut(s, `"`)
	_, _, escaped := cut(end.folder, `\`)
	return end, ok && begins(s, "},") && !escaped && end.paths > 0
}

// registration reads the file of a session: where it listens, its folders, and the stamps of its configuration. ok is false if there is anything
// in it that only a decoder understands.
func registration(b []byte) (socket string, folders, stamps []string, ok bool) {
	s := string(b)
	if _, _, escaped := cut(s, `\`); escaped {
		return "", nil, nil, false
	}
	_, rest, found := cut(s, `"socket":"`)
	socket, _, whole := cut(rest, `"`)
	if !found || !whole {
		return "", nil, nil, false
	}
	stamps, _ = texts(s, `"config_files":["`)
	folders, ok = texts(s, `"directories":["`)
	return socket, folders, stamps, ok
}

// texts is the list behind a key, of which none is empty.
func texts(s, key string) (list []string, ok bool) {
	_, rest, found := cut(s, key)
	all, _, whole := cut(rest, `"]`)
	for more := found && whole; more; {
		var one string
		one, all, more = cut(all, `","`)
		list = append(list, one)
	}
	return list, found && whole
}
