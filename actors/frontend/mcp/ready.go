package mcp

import (
	"errors"
	"io"
	"sync"
)

// ready holds what the next command needs and what would take time then: the
// pipes of its output. What can be done after an answer waits here, too. The zero value holds nothing. It is safe
// for concurrent use.
type ready struct {
	mu      sync.Mutex
	streams []*stream
	left    []func()
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

// later calls f with the next prepare.
func (r *ready) later(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = append(r.left, f)
}

// prepare tidies up after commands and makes pipes for the next one.
func (r *ready) prepare() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tidy()
	for len(r.streams) < 2 && !r.shut && err == nil {
		r.streams, err = more(r.streams)
	}
	return err
}

// tidy does what is left to do. The caller holds mu.
func (r *ready) tidy() {
	for _, f := range r.left {
		f()
	}
	r.left = nil
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
		err = errors.Join(err, s.finish(false, nil))
	}
	return err
}

// close gives back what is there, and lets nothing more be prepared.
func (r *ready) close() error {
	r.mu.Lock()
	list := r.streams
	r.streams, r.shut = nil, true
	r.tidy()
	r.mu.Unlock()
	return discard(list)
}
