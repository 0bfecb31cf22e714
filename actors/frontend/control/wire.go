package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Bounds of the wire, in bytes and counts.
const (
	MaxRequest     = 1 << 20
	MaxResponse    = 256 << 20
	maxConnections = 512 // a command that waits for its turn has one
	maxRefusals    = 64  // connections beyond these that are being told so
	maxConcurrent  = 16  // requests of one connection
	maxFiles       = 32  // descriptors of one connection that no line has claimed yet
)

// lastWords is how long a server that is closed waits for answers under way.
const lastWords = time.Second

// refusalTime is how long a connection too many has for its request, which is answered with [CodeOverloaded].
const refusalTime = 5 * time.Second

// MethodCancel is the one method that the server itself answers: it cancels a
// request of the same connection that has no answer yet.
const MethodCancel = "cancel"

// cancelParams are those of [MethodCancel].
type cancelParams struct {
	ID uint64 `json:"id"`
}

// Request is one line of a client.
type Request struct {
	ID     uint64          `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
	// FDs is how many of the descriptors that were sent with this line, or before
	// it, are this request's.
	FDs int `json:"fds,omitempty"`
}

// Response is one line of a server.
type Response struct {
	ID     uint64          `json:"id"`
	Part   json.RawMessage `json:"part,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
	// FDs is how many descriptors come with a part.
	FDs int `json:"fds,omitempty"`
}

// Error is a failure as it crosses the wire.
type Error struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Codes of the wire itself.
const (
	CodeBadRequest    = "bad_request"
	CodeUnknownMethod = "unknown_method"
	CodeTooLarge      = "too_large"
	CodeOverloaded    = "overloaded"
)

var errTooManyFiles = fmt.Errorf("more than %d descriptors that no request claims", maxFiles)

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// decodeRequest checks one line. The id is returned even when the rest is
// wrong, if it could be read.
func decodeRequest(line []byte) (Request, error) {
	var r Request
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Request{ID: r.ID}, fmt.Errorf("not a request: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Request{ID: r.ID}, errors.New("not a request: more than one value in a line")
	}
	if r.Method == "" {
		return r, errors.New("not a request: no method")
	}
	return r, nil
}
