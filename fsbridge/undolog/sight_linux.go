package undolog

import (
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// look is what a follower saw in one directory, sorted by name.
type look struct {
	all    bool // what it lists is all that there was
	sights []sight
}

// sight is one name in a directory and what it binds.
type sight struct {
	name string
	stat hostfs.Stat
	err  error
	// content is the content's hash, if the table needs that; only where looked is set.
	content uint64
	looked  bool // by a follower, and it has not changed since; otherwise the rest means nothing
}

// find returns the sight of a name, or nil.
func (w *look) find(name string) *sight {
	i, ok := slices.BinarySearchFunc(w.sights, name, func(s sight, name string) int { return strings.Compare(s.name, name) })
	if !ok {
		return nil
	}
	return &w.sights[i]
}
