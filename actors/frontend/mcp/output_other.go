//go:build !unix

package mcp

import (
	"errors"
	"io"
	"os"
	"time"
)

// stream is a pipe whose other end a command writes to. No commands run here.
type stream struct {
	r, w *os.File
	done chan struct{}
}

func newStream(to ...io.Writer) (*stream, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s := &stream{r: r, w: w, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		_, _ = io.Copy(io.MultiWriter(to...), r)
	}()
	return s, nil
}

func (s *stream) finish() error {
	err := errors.Join(s.w.Close(), s.r.SetReadDeadline(time.Now().Add(drainTime)))
	<-s.done
	return errors.Join(err, s.r.Close())
}
