package e2b

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/e2b/wire"
)

// What Connect's protocol says of a stream: each message is a frame of a byte of flags, its length in four bytes (the high one first) and JSON. The last frame of an answer has
// the flag frameEnd, and says how the call has ended.
const (
	frameHead = 5

	frameCompressed = 0x01
	frameEnd        = 0x02
)

// maxMessage is how long a message may be that is read, in bytes.
const maxMessage = 8 << 20

const (
	jsonType   = "application/json"
	streamType = "application/connect+json"
)

// readFrame reads one message. It is io.EOF where the stream ends between two. Nothing is kept that has not arrived.
func readFrame(r io.Reader) ([]byte, error) {
	var head [frameHead]byte
	switch _, err := io.ReadFull(r, head[:]); {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, wire.Fail(http.StatusBadRequest, "the request ends within the head of a frame")
	case err != nil:
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	switch {
	case head[0]&frameCompressed != 0:
		return nil, wire.Fail(http.StatusNotImplemented, "the frame is compressed: send it as it is")
	case head[0] != 0:
		return nil, wire.Fail(http.StatusBadRequest, "the frame has flags (%#02x) that a request has not", head[0])
	case size > maxMessage:
		return nil, wire.Fail(http.StatusRequestEntityTooLarge, "the frame has %d bytes, and may have %d", size, maxMessage)
	}
	var b bytes.Buffer
	switch n, err := io.CopyN(&b, r, int64(size)); {
	case errors.Is(err, io.EOF):
		return nil, wire.Fail(http.StatusBadRequest, "the request ends within a frame: %d of %d bytes are there", n, size)
	case err != nil:
		return nil, err
	}
	return b.Bytes(), nil
}

// stream is the answer of a call that streams. Its methods are safe for concurrent use.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController

	mu   sync.Mutex
	buf  []byte
	over bool
}

// newStream begins the answer.
func newStream(w http.ResponseWriter) *stream {
	w.Header().Set("Content-Type", streamType)
	w.WriteHeader(http.StatusOK)
	return &stream{w: w, rc: http.NewResponseController(w)}
}

// send sends one message.
func (s *stream) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.write(0, func(buf []byte) []byte { return append(buf, b...) })
}

// sendData sends bytes of a command: {"event":{"data":{"stdout":"..."}}}.
func (s *stream) sendData(kind string, data []byte) error {
	return s.write(0, func(buf []byte) []byte {
		buf = append(buf, `{"event":{"data":{"`...)
		buf = append(buf, kind...)
		buf = append(buf, `":"`...)
		buf = base64.StdEncoding.AppendEncode(buf, data)
		return append(buf, `"}}}`...)
	})
}

// end says how the call has ended. Nothing is sent after it.
func (s *stream) end(err error) {
	message := []byte("{}")
	if err != nil {
		message, _ = json.Marshal(map[string]any{"error": rpcError(describe(err))}) // two strings
	}
	_ = s.write(frameEnd, func(buf []byte) []byte { return append(buf, message...) }) // who has gone needs no answer
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// write writes a frame. A client that does not read for [writeTimeout] is given up.
func (s *stream) write(flags byte, body func([]byte) []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return http.ErrHandlerTimeout
	}
	s.buf = body(append(s.buf[:0], flags, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(s.buf[1:], uint32(len(s.buf)-frameHead))
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // a recorder of a test has none
	if _, err := s.w.Write(s.buf); err != nil {
		s.over = true
		return err
	}
	if cap(s.buf) > maxKept {
		s.buf = nil
	}
	return s.rc.Flush()
}

// maxKept is the largest buffer that a stream keeps, in bytes.
const maxKept = 256 << 10

type rpcErrorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func rpcError(p *wire.Problem) rpcErrorBody { return rpcErrorBody{word(p.Status), p.Message} }

// answerRPC answers a call that does not stream.
func answerRPC(w http.ResponseWriter, v any, err error) {
	if err != nil {
		p := describe(err)
		wire.Answer(w, p.Status, rpcError(p))
		return
	}
	wire.Answer(w, http.StatusOK, v)
}

// mediaType tells whether the body of a request is of that type.
func mediaType(r *http.Request, want string) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == want
}

// plain refuses what is compressed.
func plain(r *http.Request) error {
	for _, name := range []string{"Content-Encoding", "Connect-Content-Encoding"} {
		if e := r.Header.Get(name); e != "" && !strings.EqualFold(e, "identity") {
			return wire.Fail(http.StatusNotImplemented, "%s %q: send the request as it is", name, frontend.Short([]byte(e)))
		}
	}
	return nil
}

// deadlineOf is how long the caller of a command lets it run, by the header of Connect; 0: as long as it takes.
func deadlineOf(r *http.Request) (time.Duration, error) {
	text := r.Header.Get("Connect-Timeout-Ms")
	if text == "" {
		return 0, nil
	}
	ms, err := strconv.ParseUint(text, 10, 63)
	if err != nil || len(text) > 10 {
		return 0, wire.Fail(http.StatusBadRequest, "Connect-Timeout-Ms: %q is no number of milliseconds of at most ten digits", frontend.Short([]byte(text)))
	}
	return time.Duration(ms) * time.Millisecond, nil
}

const (
	// keepAlive is how often a stream says that it lives, unless the client asks for another time, in [minKeepAlive, maxKeepAlive].
	keepAlive                  = 90 * time.Second
	minKeepAlive, maxKeepAlive = time.Second, 10 * time.Minute
)

// keepAliveOf is how often the client wants to hear that a stream lives.
func keepAliveOf(r *http.Request) time.Duration {
	s, err := strconv.ParseUint(r.Header.Get("Keepalive-Ping-Interval"), 10, 16)
	if err != nil || s == 0 {
		return keepAlive
	}
	return min(max(time.Duration(s)*time.Second, minKeepAlive), maxKeepAlive)
}
