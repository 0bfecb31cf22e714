package web

import (
	"log/slog"
	"os"
	"sync"
	"time"
)

// settled is how long ago a file must have changed so that a change since would show in its time.
const settled = 2 * time.Second

// reread is what stands in some files, which are read again when they have changed. The zero value is none: use newReread.
type reread[T any] struct {
	paths []string
	read  func() (T, error)
	log   *slog.Logger

	mu    sync.Mutex
	seen  []os.FileInfo // of paths before they were read; nil: read them again
	value T
	err   error
	told  string // the error that was logged
}

// newReread reads the files for the first time. log, which may be nil, hears of later failures.
func newReread[T any](log *slog.Logger, read func() (T, error), paths ...string) (*reread[T], error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &reread[T]{paths: paths, read: read, log: slog.New(slog.DiscardHandler)}
	_, err := r.get()
	r.log = log
	return r, err
}

// get returns what the files hold now. If that cannot be read, it is what they held before, with the error.
func (r *reread[T]) get() (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := stats(r.paths)
	if r.seen != nil && same(r.seen, now) {
		return r.value, r.err
	}
	value, err := r.read()
	r.seen, r.err = nil, err
	if err != nil {
		if r.told != err.Error() {
			r.told = err.Error()
			r.log.Warn("a file cannot be read again", "err", err)
		}
		return r.value, err
	}
	r.value, r.told = value, ""
	if rested(now) {
		r.seen = now
	}
	return value, nil
}

// stats looks at files; nil: one is not there.
func stats(paths []string) []os.FileInfo {
	out := make([]os.FileInfo, len(paths))
	for i, p := range paths {
		st, err := os.Stat(p)
		if err != nil {
			return nil
		}
		out[i] = st
	}
	return out
}

func same(a, b []os.FileInfo) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !os.SameFile(a[i], b[i]) || a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime()) || a[i].Mode() != b[i].Mode() {
			return false
		}
	}
	return true
}

// rested reports whether the files changed long enough ago that another change would show.
func rested(files []os.FileInfo) bool {
	for _, f := range files {
		if time.Since(f.ModTime()) < settled {
			return false
		}
	}
	return len(files) > 0
}
