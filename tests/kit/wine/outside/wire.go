package outside

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Kinds of frames.
const (
	frameRequest = 'r'
	frameStdin   = 'i' // an empty one is its end
	frameAlive   = 'a'
	frameStdout  = 'o'
	frameStderr  = 'e'
	frameExit    = 'x' // four bytes: the status
)

const maxFrame = 1 << 20

// patience is how long a client may say nothing. Wine's server does not always close the connection of a client that was killed.
const patience = 30 * time.Second

// Address is where a server is, and what it wants to hear: the content of the file beside the .exe.
type Address struct{ Host, Token string }

type request struct {
	Token string
	Args  []string
	Dir   string
}

// A frame is a byte for the kind, four for the length, and content.
func writeFrame(w io.Writer, kind byte, content []byte) error {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(content)))
	_, err := w.Write(append(b, content...))
	return err
}

func readFrame(r *bufio.Reader) (kind byte, content []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	content = make([]byte, n)
	_, err = io.ReadFull(r, content)
	return head[0], content, err
}

// A frameWriter makes one stream of what is written to it.
type frameWriter struct {
	mu   *sync.Mutex
	conn io.Writer
	kind byte
}

func (w frameWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for rest := p; len(rest) > 0; {
		n := min(len(rest), maxFrame)
		if err := writeFrame(w.conn, w.kind, rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// Run asks for the program with these arguments, moves its streams, and returns its exit status.
func (a Address) Run(dir string, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	conn, err := net.Dial("tcp", a.Host)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	b, err := json.Marshal(request{a.Token, args, dir})
	if err == nil {
		err = writeFrame(conn, frameRequest, b)
	}
	if err != nil {
		return 0, err
	}
	mu := new(sync.Mutex)
	go func() {
		_, err := io.Copy(frameWriter{mu, conn, frameStdin}, stdin)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			_ = writeFrame(conn, frameStdin, nil)
		}
	}()
	ticker := time.NewTicker(patience / 30)
	defer ticker.Stop()
	go func() {
		for range ticker.C {
			if _, err := (frameWriter{mu, conn, frameAlive}).Write([]byte{0}); err != nil {
				return
			}
		}
	}()
	r := bufio.NewReader(conn)
	for {
		kind, content, err := readFrame(r)
		switch {
		case err != nil:
			return 0, fmt.Errorf("the program's server is gone: %w", err)
		case kind == frameStdout:
			_, err = stdout.Write(content)
		case kind == frameStderr:
			_, err = stderr.Write(content)
		case kind == frameExit && len(content) == 4:
			return int(binary.BigEndian.Uint32(content)), nil
		default:
			err = errors.New("an unknown frame")
		}
		if err != nil {
			return 0, err
		}
	}
}
