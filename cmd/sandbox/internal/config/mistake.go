package config

import (
	"errors"
	"fmt"
)

// Mistake is one thing that is wrong with a file.
type Mistake struct {
	File string
	// Line and Column count from 1; 0: not known.
	Line, Column int
	Err          error // what is wrong
}

// Error is "FILE:LINE:COLUMN: what is wrong".
func (m *Mistake) Error() string {
	if m.Column == 0 {
		return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Err)
	}
	return fmt.Sprintf("%s:%d:%d: %s", m.File, m.Line, m.Column, m.Err)
}

// Unwrap returns what is wrong.
func (m *Mistake) Unwrap() error { return m.Err }

// Mistakes are those that an error of this package tells of, in the order of their lines. An error
// that is not about a line is one without a line.
func Mistakes(err error) []*Mistake {
	var one *Mistake
	var many interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &many):
		var list []*Mistake
		for _, e := range many.Unwrap() {
			list = append(list, Mistakes(e)...)
		}
		return list
	case errors.As(err, &one):
		return []*Mistake{one}
	}
	return []*Mistake{{Err: err}}
}

// Brief is an error of this package on one line: the first mistake, and how many more there are.
func Brief(err error) string {
	list := Mistakes(err)
	if len(list) < 2 {
		return err.Error()
	}
	return fmt.Sprintf("%s (and %d more: 'sandbox config check' lists them)", list[0], len(list)-1)
}
