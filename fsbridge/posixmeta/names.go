package posixmeta

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Errors of names. The bridge answers EINVAL, and EEXIST for [ErrCollision].
var (
	// ErrName: Windows has no such name.
	ErrName = errors.New("posixmeta: Windows has no such name")
	// ErrCollision: the name differs only in case from one that is there.
	ErrCollision = errors.New("posixmeta: differs only in case from a name that is there")
)

// NameUnits is the longest name on NTFS, in UTF-16 units.
const NameUnits = 255

// reservedCharacters cannot be in a name; neither can what is below a space.
const reservedCharacters = `<>:"/\|?*`

// devices are names that mean no file, whatever extension follows.
var devices = map[string]bool{
	"CON": true, "PRN": true, "AUX": true, "NUL": true, "CONIN$": true, "CONOUT$": true,
}

// isDevice tells whether name is a device's: its part before the first dot or
// colon, less spaces at the end, is reserved. COM and LPT have the digits 0 to 9 and the
// superscripts of Latin 1.
func isDevice(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	if devices[base] {
		return true
	}
	port, found := strings.CutPrefix(base, "COM")
	if !found {
		port, found = strings.CutPrefix(base, "LPT")
	}
	r, size := utf8.DecodeRuneInString(port)
	return found && size > 0 && size == len(port) && strings.ContainsRune("0123456789¹²³", r)
}

// CheckName returns nil if Windows takes a name as it is, else an error that
// wraps [ErrName] and says why not.
func CheckName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%w: %q is not a name", ErrName, name)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("%w: %q is not UTF-8", ErrName, name)
	}
	for _, r := range name {
		if r < ' ' || strings.ContainsRune(reservedCharacters, r) {
			return fmt.Errorf("%w: %q has the character %q", ErrName, name, r)
		}
	}
	switch {
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return fmt.Errorf("%w: %q ends with a dot or a space, which Windows takes away", ErrName, name)
	case isDevice(name):
		return fmt.Errorf("%w: %q is a device", ErrName, name)
	}
	return checkLength(name)
}

func checkLength(name string) error {
	units := 0
	for _, r := range name {
		units += max(1, utf16.RuneLen(r))
	}
	if units > NameUnits {
		return fmt.Errorf("%w: %d UTF-16 units, %d are allowed", ErrName, units, NameUnits)
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
