package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/codeagent/sandbox/actors/frontend"
)

// maxID is the longest id that is a string, in characters of JSON.
const maxID = 256

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
	if len(text) > 0 && text[0] == '[' {
		return env, &problem{jsonrpc.CodeInvalidRequest, "batches are not supported: send one message a line"}
	}
	if err := frontend.CheckFiniteJSON(text); err != nil {
		var bad *frontend.JSONError
		if errors.As(err, &bad) && bad.Malformed {
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

// answerable is an id that was found in a message which was not kept, or nil.
func answerable(id []byte) json.RawMessage {
	if !json.Valid(id) || !validID(id) {
		return nil
	}
	return id
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
