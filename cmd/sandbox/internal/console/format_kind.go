package console

import (
	"slices"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Kind is what an entry of the history is, in a word. The page of 'sandbox ui' has the
// same words, and colours for the same of them.
type Kind string

// The kinds.
const (
	KindCommand Kind = "Command"
	KindAPI     Kind = "API write"
	KindAmbient Kind = "Ambient"
	KindBarrier Kind = "Barrier"
	KindUndone  Kind = "Undone"
	KindMark    Kind = "Mark"
	KindRunning Kind = "Running"
)

// KindOf returns the kind of e.
func KindOf(e undolog.Entry) Kind {
	switch {
	case e.Type == TypeMark:
		return KindMark
	case e.Type == TypeOpen:
		return KindRunning
	case e.Type == undolog.TypeBarrier:
		return KindBarrier
	case e.Undone:
		return KindUndone
	case e.Type == undolog.TypeAPI:
		return KindAPI
	case e.Type == undolog.TypeAmbient:
		return KindAmbient
	}
	return KindCommand
}

// Kind paints s in the colour of k.
func (p Painter) Kind(k Kind, s string) string {
	switch k {
	case KindAPI:
		return p.sgr("35", s)
	case KindAmbient:
		return p.sgr("36", s)
	case KindBarrier:
		return p.Red(s)
	case KindUndone:
		return p.Dim(s)
	case KindMark:
		return p.Yellow(s)
	case KindRunning:
		return p.Green(s)
	}
	return p.sgr("34", s)
}

// TypeOpen is the type of an entry for the step that is open: its commands run. Of its fields
// only those are set that are known already.
const TypeOpen undolog.StepType = "open"

// TypeMark is the type of an entry that [WithMarks] adds.
const TypeMark undolog.StepType = "mark"

// WithMarks adds the marks that can be reached to entries, the newest first, each above
// the step after which it was set. What is older than the listed entries comes last.
func WithMarks(entries []undolog.Entry, marks []undolog.Mark) []undolog.Entry {
	for _, m := range marks {
		if m.Lost != "" {
			continue
		}
		at := slices.IndexFunc(entries, func(e undolog.Entry) bool {
			return e.Seq <= m.Seq && e.Type != undolog.TypeBarrier
		})
		if at < 0 {
			at = len(entries)
		}
		entries = slices.Insert(entries, at, undolog.Entry{
			Seq: m.Seq, StepID: m.After, Type: TypeMark, Command: m.Name, StartedAt: m.At, EndedAt: m.At, AffectedPaths: []string{}, Barriers: []undolog.Barrier{},
		})
	}
	return entries
}

// Label is what a list calls e: its command on one line and not too long, or what else it is.
func Label(e undolog.Entry, most int) string {
	switch e.Type {
	case TypeMark:
		return Shown(e.Command)
	case undolog.TypeBarrier:
		return Barriers(e.Barriers)
	case undolog.TypeAmbient:
		return "(written between commands)"
	}
	return OneLine(e.Command, most)
}
