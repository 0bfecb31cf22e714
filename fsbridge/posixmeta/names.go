package posixmeta

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Errors of names. The bridge answers EINVAL, and EEXIST for [ErrCollision].
var (
	// ErrName: Windows has no such name.
	ErrName = errors.New("posixmeta: Windows has no such name")
	// ErrCollision: the name differs only in case from one that is there.
	ErrCollision = errors.New("posixmeta: differs only in case from a name that is there")
)

// CheckName returns nil if Windows takes a name as it is, else an error that
// wraps [ErrName] and says why not.
func CheckName(name string) error {
	if why, err := posix.WindowsName(name); err != nil {
		return fmt.Errorf("%w: %q %s", ErrName, name, why)
	}
	return nil
}

// Fold maps names that a case-insensitive file system might take for one to the
// same text.
func Fold(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		if r == utf8.RuneError && size == 1 {
			b.WriteByte(name[i])
		} else {
			b.WriteRune(fold(r))
		}
		i += size
	}
	return b.String()
}

// fold returns the least character of those that differ only in case.
func fold(r rune) rune {
	r = unicode.ToUpper(r)
	least := r
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		least = min(least, o)
	}
	return least
}
