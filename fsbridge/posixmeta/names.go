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
	if err := checkGuest(name); err != nil {
		return err
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

// checkGuest refuses what is not one name on Linux either.
func checkGuest(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%w: %q is not a name", ErrName, name)
	}
	return nil
}

// The private use area from base on stands for the character or byte less base;
// a character of that area itself has mark before it.
const (
	base = 0xF000
	last = 0xF0FF
	mark = 0xF07F
)

// Escape returns the name under which Windows can store a guest's name. It is
// the name itself where [CheckName] takes that and it has nothing of the private
// use area that stands for other characters. It fails for what is no name, or
// becomes too long.
func Escape(name string) (string, error) {
	if err := checkGuest(name); err != nil {
		return "", err
	}
	var b strings.Builder
	device := isDevice(name)
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		end := i+size == len(name)
		switch {
		case r == utf8.RuneError && size == 1: // a byte that is not UTF-8
			b.WriteRune(base + rune(name[i]))
		case r >= base && r <= last:
			b.WriteRune(mark)
			b.WriteRune(r)
		case r < ' ' || strings.ContainsRune(reservedCharacters, r), end && (r == '.' || r == ' '), device && i == 0:
			b.WriteRune(base + r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String(), checkLength(b.String())
}

// Unescape returns the guest's name of what Windows stores. ok is false for a
// name that [Escape] never gives: the guest could not ask for it.
func Unescape(stored string) (name string, ok bool) {
	var b strings.Builder
	marked := false
	for _, r := range stored {
		switch {
		case r < base || r > last:
			b.WriteRune(r)
			marked = false
		case marked:
			b.WriteRune(r)
			marked = false
		case r == mark:
			marked = true
		default:
			b.WriteByte(byte(r - base))
		}
	}
	again, err := Escape(b.String())
	if err != nil || again != stored {
		return "", false
	}
	return b.String(), true
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
