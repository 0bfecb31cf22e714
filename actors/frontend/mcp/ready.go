package mcp

import (
	"errors"
	"io"
	"sync"
)

// ready holds what the next command needs and what would take time then: the
// pipes of its output. The zero value holds nothing. It is safe for concurrent
// use.
type ready struct {
	mu      sync.Mutex
	streams []*stream
	shut    bool
}

// take returns pipes for what a command writes to stdout and stderr.
func (r *ready) take(stdout, stderr []io.Writer) (o, e *stream, err error) {
	r.mu.Lock()
	have := r.streams
	r.streams = nil
	r.mu.Unlock()
	for len(have) < 2 && err == nil {
		have, err = more(have)
	}
	if err != nil {
		return nil, nil, errors.Join(err, discard(have))
	}
	have[0].into(stdout...)
	have[1].into(stderr...)
	return have[0], have[1], nil
}

// giveBack takes pipes back when their command has ended, and returns when all
// that it wrote has been read. With alone set no process is left that could write:
// then the pipe's end is where it is empty, and the next command gets the same.
func (r *ready) giveBack(alone bool, list ...*stream) (err error) {
	for _, s := range list {
		if !alone || !r.keep(s) {
			err = errors.Join(err, s.finish())
		}
	}
	return err
}

// keep keeps a pipe that nobody else has for the next command, if it can.
func (r *ready) keep(s *stream) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut || len(r.streams) >= 2 || !s.again() {
		return false
	}
	r.streams = append(r.streams, s)
	return true
}

// prepare makes pipes for the next command, unless they are there.
func (r *ready) prepare() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.streams) < 2 && !r.shut && err == nil {
		r.streams, err = more(r.streams)
	}
	return err
}

func more(list []*stream) ([]*stream, error) {
	s, err := newStream()
	if err != nil {
		return list, err
	}
	return append(list, s), nil
}

func discard(list []*stream) (err error) {
	for _, s := range list {
		s.into()
		err = errors.Join(err, s.finish())
	}
	return err
}

// close gives back what is there, and lets nothing more be prepared.
func (r *ready) close() error {
	r.mu.Lock()
	list := r.streams
	r.streams, r.shut = nil, true
	r.mu.Unlock()
	return discard(list)
}
