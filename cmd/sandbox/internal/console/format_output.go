package console

import (
	"io"
	"text/tabwriter"
)

// Output is where a command's result goes. On a terminal only lines, tabs and colours act, whatever a command prints; what others have chosen goes through
// [Output.Contents], where colours do not act either. It remembers that something could not be written: commands print without looking, and the program asks
// for Err at its end. It is not safe for concurrent use.
type Output struct {
	w        io.Writer
	terminal bool
	err      error
}

// NewOutput returns an Output that writes to w.
func NewOutput(w io.Writer) *Output { return OutputTo(w, terminal(w)) }

// OutputTo returns an Output that writes to w, as to a terminal or not.
func OutputTo(w io.Writer, terminal bool) *Output {
	if terminal {
		w = &inertWriter{w: w, show: painted}
	}
	return &Output{w: w, terminal: terminal}
}

// Write implements [io.Writer].
func (o *Output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// Err is the first error of Write, or nil. It writes what the last Write ended within.
func (o *Output) Err() error {
	if w, ok := o.w.(*inertWriter); ok && o.err == nil {
		o.err = w.Close()
	}
	return o.err
}

// Table writes aligned columns; fill separates cells by tabs.
func (o *Output) Table(fill func(w io.Writer)) error {
	w := tabwriter.NewWriter(o, 0, 8, 2, ' ', 0)
	fill(w)
	return w.Flush()
}
