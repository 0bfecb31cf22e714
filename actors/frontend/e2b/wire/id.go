package wire

import (
	"crypto/rand"
	"strings"
)

// An id has [IDLength] letters and digits, the first of them a letter: about 103 random bits. It can be a part of a host name and of a file's, and a name of any object of a cluster: a Service's has to begin with a letter.
const (
	IDLength  = 20
	idLetters = "abcdefghijklmnopqrstuvwxyz"
	idDigits  = idLetters + "0123456789"
)

// NewID makes an id.
func NewID() string { return random(idLetters, 1) + random(idDigits, IDLength-1) }

// random makes a text of some of the digits, all of which are as likely.
func random(digits string, length int) string {
	var text strings.Builder
	for text.Len() < length {
		var b [32]byte
		_, _ = rand.Read(b[:]) // never fails: see its documentation
		for _, c := range b {
			if int(c) < 256/len(digits)*len(digits) && text.Len() < length {
				text.WriteByte(digits[int(c)%len(digits)])
			}
		}
	}
	return text.String()
}

// IsID tells whether s is what an id looks like. Those of older versions may begin with a digit.
func IsID(s string) bool { return len(s) == IDLength && strings.Trim(s, idDigits) == "" }

// ValidName tells whether s can be the name of a sandbox, a template or a snapshot: letters, digits, '.', '_' and '-', the first a letter or digit, at most 64. An id is one.
func ValidName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}
