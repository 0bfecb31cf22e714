package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// passing writes to the request's file and gives its own end of another pipe back.
func passing(_ context.Context, c *Call) (any, error) {
	if len(c.Files) != 1 {
		return len(c.Files), nil
	}
	if _, err := io.WriteString(c.Files[0], "to the caller's pipe"); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	_, err = io.WriteString(w, "from the session")
	return 1, errors.Join(err, w.Close(), c.Emit("here", r))
}

// Descriptors cross in both directions, and the server keeps none: the reader of
// the caller's pipe sees its end when the call is answered.
func TestFilesCross(t *testing.T) {
	c, err := Dial(t.Context(), serve(t, passing))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var back string
	part := func(_ json.RawMessage, files []*os.File) error {
		defer closeFiles(files)
		for _, f := range files {
			b, err := io.ReadAll(f)
			if err != nil {
				return err
			}
			back += string(b)
		}
		return nil
	}
	if err := c.Do(t.Context(), Ask{Method: "pass", Files: []*os.File{w}, Part: part}, nil); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if b, err := io.ReadAll(r); string(b) != "to the caller's pipe" || err != nil {
		t.Errorf("the caller's pipe: %q, %v", b, err)
	}
	if back != "from the session" {
		t.Errorf("the session's pipe: %q", back)
	}
}

// A request that claims what did not come is refused; who sends descriptors that no
// request claims is told, and hung up on. None of them stays open.
func TestFilesUnclaimed(t *testing.T) {
	path := serve(t, passing)
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	answer := func() string {
		line, _ := in.ReadString('\n')
		return line
	}
	if _, err := io.WriteString(conn, `{"id":1,"method":"pass","fds":3}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if got := answer(); !strings.Contains(got, CodeBadRequest) || !strings.Contains(got, "3 descriptors") {
		t.Errorf("claimed, not sent: %s", got)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	many := make([]*os.File, 3*maxFiles)
	for i := range many {
		many[i] = w
	}
	_, err = writeFiles(conn, []byte(`{"id":2,"method":"pass"}`+"\n"), many)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got := answer(); !strings.Contains(got, CodeTooLarge) || !strings.Contains(got, "descriptors") {
		t.Errorf("too many: %s", got)
	}
	if got := answer(); got != "" {
		t.Errorf("the connection lives on: %s", got)
	}
	if b, err := io.ReadAll(r); len(b) != 0 || err != nil { // its end: nobody has the other side open
		t.Errorf("the pipe: %q, %v", b, err)
	}
}

// What is not a descriptor's line is none: a request without them leaves the queue
// alone, and garbage with some is refused.
func TestFilesWithGarbage(t *testing.T) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: serve(t, passing), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, line := range []string{"garbage\n", "{\"id\":1,\"method\":\"pass\",\"fds\":-1}\n"} {
		if _, err := writeFiles(conn, []byte(line), []*os.File{w}); err != nil {
			t.Fatal(err)
		}
		if got, _ := in.ReadString('\n'); !strings.Contains(got, CodeBadRequest) {
			t.Errorf("%q: %s", line, got)
		}
	}
	w.Close()
	conn.Close()
	if b, err := io.ReadAll(r); len(b) != 0 || err != nil {
		t.Errorf("the pipe: %q, %v", b, err)
	}
}

// A client that cancels what it asked for gets the answer all the same.
func TestCancelIsAnswered(t *testing.T) {
	entered := make(chan struct{})
	c, err := Dial(t.Context(), serve(t, func(ctx context.Context, _ *Call) (any, error) {
		close(entered)
		<-ctx.Done()
		return "ended in order", nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	var got string
	if err := c.Do(ctx, Ask{Method: "wait", Finish: true}, &got); err != nil || got != "ended in order" {
		t.Errorf("%q, %v", got, err)
	}
}

// The mode of an open file is not changed by sending it.
func TestFilesKeepTheirMode(t *testing.T) {
	c, err := Dial(t.Context(), serve(t, passing))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, w, err := os.Pipe() // not blocking, as Go makes them
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := c.Do(t.Context(), Ask{Method: "pass", Files: []*os.File{w}}, nil); err != nil {
		t.Fatal(err)
	}
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
		if errno != 0 || flags&syscall.O_NONBLOCK == 0 {
			t.Errorf("flags %x, %v", flags, errno)
		}
	})
}
