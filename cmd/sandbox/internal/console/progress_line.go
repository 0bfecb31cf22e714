package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

const (
	patience = time.Second            // before the first line
	interval = 200 * time.Millisecond // between two of them
	barWidth = 20

	erase = "\r\x1b[K"
)

// ProgressClock is the time; tests have their own.
type ProgressClock interface {
	Now() time.Time
	// AfterFunc calls f after d, from another goroutine.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }
func (systemClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(d, f).Stop
}

// ProgressOptions say where a line is drawn, and how.
type ProgressOptions struct {
	Out   io.Writer
	Width func() int // of the terminal, at the moment
	ASCII bool       // the locale has no other characters
	Clock ProgressClock
}

// ProgressLine is a line about work that is under way. Its methods are safe for concurrent use; a
// nil Line does nothing.
type ProgressLine struct {
	o     ProgressOptions
	what  string
	count func(done, total int64) string
	begin time.Time

	done, total atomic.Int64

	mu    sync.Mutex
	ended bool
	shown string
	stop  func() bool
}

// ProgressOn begins a line on stderr, or returns nil if that is no terminal that can take lines
// back. what is done, in a word or two; count says how much of it, and may be nil.
func ProgressOn(stderr *os.File, what string, count func(done, total int64) string) *ProgressLine {
	if !term.IsTerminal(int(stderr.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return NewProgress(ProgressOptions{
		Out: stderr, Width: func() int { return Width(stderr) }, ASCII: !UTF8(os.Getenv), Clock: systemClock{},
	}, what, count)
}

// NewProgress begins a line, whatever o.Out is.
func NewProgress(o ProgressOptions, what string, count func(done, total int64) string) *ProgressLine {
	l := &ProgressLine{o: o, what: what, count: count, begin: o.Clock.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop = o.Clock.AfterFunc(patience, l.tick)
	return l
}

// Report says how much of the work is done. It costs next to nothing.
func (l *ProgressLine) Report(done, total int64) {
	if l != nil {
		l.total.Store(total)
		l.done.Store(done)
	}
}

// End takes the line away. Nothing is drawn afterwards.
func (l *ProgressLine) End() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.stop()
	if l.shown != "" {
		l.shown = ""
		l.write(erase)
	}
}

func (l *ProgressLine) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	// The cursor stays at the beginning: what others write goes over the line.
	if text := l.text(); text != l.shown {
		l.shown = text
		l.write(erase + text + "\r")
	}
	l.stop = l.o.Clock.AfterFunc(interval, l.tick)
}

// write draws. A terminal that has gone away is no reason to end the work.
func (l *ProgressLine) write(s string) { _, _ = io.WriteString(l.o.Out, s) }

// text is the line of this moment: no wider than the terminal, and with a column to spare.
func (l *ProgressLine) text() string {
	parts := []string{l.what}
	if done, total := l.done.Load(), l.total.Load(); total > 0 && l.count != nil {
		done = min(max(done, 0), total)
		bar := Bar(float64(done)/float64(total), barWidth, l.o.ASCII)
		parts = append(parts, bar+strings.Repeat(" ", barWidth-len([]rune(bar))), l.count(done, total))
	}
	elapsed := max(l.o.Clock.Now().Sub(l.begin), 0).Truncate(time.Second)
	parts = append(parts, elapsed.String())
	if width := l.o.Width(); width > 0 {
		most := max(width-1, 1)
		for len(parts) > 2 && len([]rune(strings.Join(parts, "  "))) > most { // first the bar goes, then the count
			parts = append(parts[:1], parts[2:]...)
		}
		text := []rune(strings.Join(parts, "  "))
		return string(text[:min(len(text), most)])
	}
	return strings.Join(parts, "  ")
}

// ProgressPaths counts paths.
func ProgressPaths(done, total int64) string { return fmt.Sprintf("%d/%d paths", done, total) }

// ProgressBytes counts bytes.
func ProgressBytes(done, total int64) string { return Bytes(done) + " of " + Bytes(total) }
