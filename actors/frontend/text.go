package frontend

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Valid returns s with what is not UTF-8 replaced.
func Valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Rest returns b without the end of a character at its beginning whose first bytes
// were cut off. Bytes that belong to no character stay.
func Rest(b []byte) []byte {
	for i := range min(len(b), utf8.UTFMax) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// Whole returns b without the beginning of a character at its end whose rest was
// cut off. Bytes that begin no character stay.
func Whole(b []byte) []byte {
	for i := 1; i <= min(len(b), utf8.UTFMax-1); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// ErrEmpty is returned by [ReadNow] when somebody could still write.
var ErrEmpty = errors.New("frontend: nothing to read now")

var errCut = errors.New("frontend: cut off")

// Cut is an [io.Writer] that keeps the first Max bytes and fails then, so that no
// more are made. It belongs to one goroutine.
type Cut struct {
	Max int

	b    []byte
	full bool
}

// Write implements [io.Writer].
func (c *Cut) Write(p []byte) (int, error) {
	n := min(len(p), c.Max-len(c.b))
	c.b = append(c.b, p[:n]...)
	if n < len(p) {
		c.full = true
		return n, errCut
	}
	return n, nil
}

// Kept returns what was kept, and whether the rest is missing: then it ends with
// a whole character. err is that of who wrote; it is nil if it was only cut.
func (c *Cut) Kept(err error) ([]byte, bool, error) {
	switch {
	case c.full:
		return Whole(c.b), true, nil
	case err != nil:
		return nil, false, err
	}
	return c.b, false, nil
}

// History returns at most r.Limit steps, newest first, and whether there are
// older ones. The limit must be positive.
func History(ctx context.Context, h api.Historian, r api.HistoryRequest) (entries []undolog.Entry, more bool, err error) {
	limit := r.Limit
	r.Limit++
	if entries, err = h.History(ctx, r); err != nil || len(entries) <= limit {
		return entries, false, err
	}
	return entries[:limit], true, nil
}
