//go:build !unix

package mcp

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/codeagent/sandbox/actors/frontend"
)

// stream is a pipe whose other end a command writes to.
type stream struct {
	r, w *os.File
	to   io.Writer
	done chan struct{}
}

func newStream() (*stream, error) {
	r, w, err := frontend.Pipe()
	if err != nil {
		return nil, err
	}
	return &stream{r: r, w: w, to: io.Discard, done: make(chan struct{})}, nil
}

func (s *stream) into(to ...io.Writer) {
	s.to = io.MultiWriter(to...)
	go func() {
		defer close(s.done)
		_, _ = io.Copy(s.to, s.r)
	}()
}

func (s *stream) finish() error {
	err := errors.Join(s.w.Close(), s.r.SetReadDeadline(time.Now().Add(drainTime)))
	<-s.done
	return errors.Join(err, s.r.Close())
}

func (s *stream) again() bool { return false }
