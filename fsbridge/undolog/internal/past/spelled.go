package past

import (
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Spelled is the path that somebody means who has written parts: where case does not count, with the names as they are or were. A name
// that is found as it is written is that one, and what nothing had stays as it is.
func (v *View) Spelled(parts []string) []string {
	out := slices.Clone(parts)
	was, is := v.top, v.top
	for i, name := range out {
		if !v.has(was, is, name) {
			out[i] = v.otherSpelling(was, is, name)
		}
		was, is = v.at(was, out[i]), v.nowAt(is, out[i])
		if was == nil && is == nil {
			break
		}
	}
	return out
}

// has tells whether there is or was something at name in a directory, which is one thing now and was another.
func (v *View) has(was, is *thing, name string) bool {
	return v.at(was, name) != nil || v.nowAt(is, name) != nil
}

// at is what was at name in d, or nil: also where it cannot be looked at.
func (v *View) at(d *thing, name string) *thing {
	t, err := v.look(d, name)
	if err != nil {
		return nil
	}
	return t
}

// nowAt is at for what is there now.
func (v *View) nowAt(d *thing, name string) *thing {
	if d == nil || d.typ != posix.S_IFDIR {
		return nil
	}
	t, err := v.present(d, name)
	if err != nil {
		return nil
	}
	return t
}

// otherSpelling is the name that the directory has now, or had, and that differs from name only in case, if case does not count there.
func (v *View) otherSpelling(was, is *thing, name string) string {
	if is == nil || !is.now() || is.typ != posix.S_IFDIR {
		return name
	}
	fd, err := v.dir(is)
	if err != nil {
		return name
	}
	names, err := is.names()
	if err != nil || !hostfs.CaseFolds(fd, names) {
		return name
	}
	if was != nil && was.typ == posix.S_IFDIR {
		then, err := v.names(was)
		if err != nil {
			return name
		}
		for n := range then {
			names = append(names, n)
		}
	}
	if i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) }); i >= 0 {
		return names[i]
	}
	return name
}
