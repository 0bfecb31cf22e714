package format

import (
	"encoding/json"
	"io"
	"text/tabwriter"
)

// Output is where a command's result goes. It remembers that something could not
// be written: commands print without looking, and the program asks for Err at its
// end. It is not safe for concurrent use.
type Output struct {
	w   io.Writer
	err error
}

// NewOutput returns an Output that writes to w.
func NewOutput(w io.Writer) *Output { return &Output{w: w} }

// Write implements [io.Writer].
func (o *Output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// Err is the first error of Write, or nil.
func (o *Output) Err() error { return o.err }

// JSON writes v, indented, and a newline.
func (o *Output) JSON(v any) error {
	enc := json.NewEncoder(o)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Table writes aligned columns; fill separates cells by tabs.
func (o *Output) Table(fill func(w io.Writer)) error {
	w := tabwriter.NewWriter(o, 0, 8, 2, ' ', 0)
	fill(w)
	return w.Flush()
}

// OrEmpty keeps null out of JSON: it returns an empty list for nil.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
