package ui

import (
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// asText is a path as JSON can hold it. One that is not UTF-8 is quoted as in Go, and so is one
// that begins with a quote: what begins with one is always quoted.
func asText(path string) string {
	if utf8.ValidString(path) && (path == "" || path[0] != '"') {
		return path
	}
	return strconv.Quote(path)
}

// asPath is the path that [asText] made text of.
func asPath(text string) (string, error) {
	if text == "" || text[0] != '"' {
		return text, nil
	}
	path, err := strconv.Unquote(text)
	if err != nil {
		return "", &problem{http.StatusBadRequest, "invalid_field", "the path begins with a quote, but is not quoted as in Go", ""}
	}
	return path, nil
}

// asTexts is asText for the paths of a step.
func asTexts(paths []undolog.Affected) []undolog.Affected {
	out := make([]undolog.Affected, len(paths))
	for i, p := range paths {
		p.Path = asText(p.Path)
		out[i] = p
	}
	return out
}
