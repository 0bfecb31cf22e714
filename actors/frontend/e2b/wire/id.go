package wire

import (
	"crypto/rand"
	"strings"
)

// An id has [IDLength] letters and digits: about 103 random bits. It can be a part of a host name, and of a file's.
const (
	IDLength = 20
	idDigits = "abcdefghijklmnopqrstuvwxyz0123456789"
)

// NewID makes an id.
func NewID() string {
	var id strings.Builder
	for id.Len() < IDLength {
		var b [32]byte
		_, _ = rand.Read(b[:]) // never fails: see its documentation
		for _, c := range b {
			if int(c) < 256/len(idDigits)*len(idDigits) && id.Len() < IDLength { // all digits are as likely
				id.WriteByte(idDigits[int(c)%len(idDigits)])
			}
		}
	}
	return id.String()
}

// IsID tells whether s is what an id looks like.
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
