package store

import (
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Look is what was seen in one directory, sorted by name.
type Look struct {
	All    bool // what it lists is all that there was
	Sights []Sight
}

// Sight is one name in a directory and what it binds.
type Sight struct {
	Name string
	Stat hostfs.Stat
	Err  error
	// Content is the content's hash, if the table needs that; only where Looked is set.
	Content uint64
	Looked  bool // and it has not changed since; otherwise the rest means nothing
}

// Find returns the sight of a name, or nil.
func (w *Look) Find(name string) *Sight {
	i, ok := slices.BinarySearchFunc(w.Sights, name, func(s Sight, name string) int { return strings.Compare(s.Name, name) })
	if !ok {
		return nil
	}
	return &w.Sights[i]
}
