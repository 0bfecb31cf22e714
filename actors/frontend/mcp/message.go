package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Limits on the shape of a message.
const (
	maxDepth   = 64   // of nesting
	maxMembers = 1000 // of one object
	maxNumber  = 64   // characters
	maxID      = 256  // characters
)

// problem is why a message is refused.
type problem struct {
	code int64
	text string
}

// envelope is what all messages have.
type envelope struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  *string         `json:"method"`
}

// inspect checks a message as a whole before anything acts on it: that it is
// one JSON object in UTF-8 which every reader understands alike. The envelope
// holds an id if there is one that can be answered to.
func inspect(text []byte) (envelope, *problem) {
	var env envelope
	if !utf8.Valid(text) {
		return env, &problem{jsonrpc.CodeParseError, "the message is not UTF-8"}
	}
	if len(text) > 0 && text[0] == '[' {
		return env, &problem{jsonrpc.CodeInvalidRequest, "batches are not supported: send one message a line"}
	}
	if err := checkShape(text); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errTrailing) {
			return env, &problem{jsonrpc.CodeParseError, "the message is not JSON: " + err.Error()}
		}
		return env, &problem{jsonrpc.CodeInvalidRequest, err.Error()}
	}
	if err := json.Unmarshal(text, &env); err != nil {
		return envelope{}, &problem{jsonrpc.CodeInvalidRequest, "no JSON-RPC message: " + err.Error()}
	}
	if env.ID != nil && !validID(env.ID) {
		env.ID = nil
		return env, &problem{jsonrpc.CodeInvalidRequest, fmt.Sprintf("an id is a string of at most %d characters or a whole number up to 2^53", maxID)}
	}
	if env.Version != "2.0" {
		return env, &problem{jsonrpc.CodeInvalidRequest, `"jsonrpc" must be "2.0"`}
	}
	return env, nil
}

// validID reports whether an id comes back as it was sent: the SDK reads numbers
// as floating point.
func validID(id json.RawMessage) bool {
	if id[0] == '"' {
		return len(id) <= maxID
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil && n <= 1<<53 && n >= -(1<<53)
}

var errTrailing = errors.New("something follows the message on its line")

// checkShape refuses what readers of JSON disagree about or choke on: a key
// that an object has twice, deep nesting, numbers that no computer can hold.
func checkShape(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	type level struct {
		keys  map[string]struct{} // nil in an array
		value bool                // the next token is a key's value
	}
	var levels []level
	for {
		t, err := d.Token()
		if err != nil {
			return noEOF(err)
		}
		top := (*level)(nil)
		if len(levels) > 0 {
			top = &levels[len(levels)-1]
		}
		if key, ok := t.(string); ok && top != nil && top.keys != nil && !top.value {
			if _, twice := top.keys[key]; twice {
				return fmt.Errorf("the key %.64q is there twice", key)
			}
			if len(top.keys) == maxMembers {
				return fmt.Errorf("an object may have %d members at most", maxMembers)
			}
			top.keys[key], top.value = struct{}{}, true
			continue
		}
		if top != nil {
			top.value = false
		}
		switch t := t.(type) {
		case json.Number:
			if _, err := t.Float64(); err != nil || len(t) > maxNumber {
				return fmt.Errorf("the number %.32s... is too large", t)
			}
		case json.Delim:
			switch t {
			case '{':
				levels = append(levels, level{keys: map[string]struct{}{}})
			case '[':
				levels = append(levels, level{})
			default:
				levels = levels[:len(levels)-1]
			}
			if len(levels) > maxDepth {
				return fmt.Errorf("the message is nested more than %d levels deep", maxDepth)
			}
		}
		if len(levels) == 0 {
			break
		}
	}
	if _, err := d.Token(); err != io.EOF {
		return errTrailing
	}
	return nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// idScanner finds the value of the top-level key "id" in a message that is
// thrown away while it is read. It keeps a few bytes only.
type idScanner struct {
	depth    int
	inString bool
	escaped  bool
	value    bool   // after a colon at the top level
	word     []byte // the current string or scalar at the top level, cut off
	key      string
	found    []byte
}

func (s *idScanner) feed(b []byte) {
	for _, c := range b {
		s.next(c)
	}
}

func (s *idScanner) next(c byte) {
	if s.inString {
		s.keep(c)
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.inString = false
		}
		return
	}
	switch c {
	case '"':
		s.inString = true
		s.word = s.word[:0]
		s.keep(c)
	case '{', '[':
		s.depth++
		s.word = s.word[:0]
	case '}', ']':
		s.member()
		s.depth--
	case ',':
		s.member()
	case ':':
		if s.depth == 1 {
			s.key, s.value = string(s.word), true
			s.word = s.word[:0]
		}
	case ' ', '\t', '\r', '\n':
	default:
		s.keep(c)
	}
}

func (s *idScanner) keep(c byte) {
	if s.depth == 1 && len(s.word) <= maxID {
		s.word = append(s.word, c)
	}
}

// member is the end of a member.
func (s *idScanner) member() {
	if s.depth == 1 && s.value {
		if s.key == `"id"` {
			s.found = bytes.Clone(s.word)
		}
		s.value = false
		s.word = s.word[:0]
	}
}

// id returns what was found if it is valid, else nil.
func (s *idScanner) id() json.RawMessage {
	if !json.Valid(s.found) || !validID(s.found) {
		return nil
	}
	return s.found
}
