package api

import "strings"

// ShellQuote renders words of a shell's command line as a person would type them.
func ShellQuote(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+@%", r)
		}) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		quoted[i] = w
	}
	return strings.Join(quoted, " ")
}
