package runtimeapi

import (
	"errors"
	"strings"
)

var (
	errQuotation = errors.New("no closing quotation")
	errEscaped   = errors.New("nothing follows the last backslash")
)

// split splits a command into words as a POSIX shell does that expands nothing, as Python's shlex.split has it, which the clients count on: white space separates; '...' is taken as it is; in "..." a backslash
// is for a quotation mark or a backslash, and otherwise stays; outside, it takes the next character as it is, a line's end as well. There are no comments, operators, variables and patterns.
// No word is lost: what is quoted may be empty.
func split(command string) (words []string, err error) {
	var word strings.Builder
	begun := false // there is a word, though it may be empty
	for i := 0; i < len(command); i++ {
		switch c := command[i]; c {
		case ' ', '\t', '\r', '\n':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
			continue
		case '\'', '"':
			n, err := quoted(&word, command[i+1:], c)
			if err != nil {
				return nil, err
			}
			i += n
		case '\\':
			if i++; i == len(command) {
				return nil, errEscaped
			}
			word.WriteByte(command[i])
		default:
			word.WriteByte(c)
		}
		begun = true
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// quoted adds what is quoted at the beginning of text, and returns how long it is, with the mark at its end.
func quoted(word *strings.Builder, text string, mark byte) (int, error) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == mark:
			return i + 1, nil
		case c == '\\' && mark == '"':
			if i++; i == len(text) {
				return 0, errEscaped
			}
			if text[i] != '"' && text[i] != '\\' {
				word.WriteByte(c)
			}
			word.WriteByte(text[i])
		default:
			word.WriteByte(c)
		}
	}
	return 0, errQuotation
}
