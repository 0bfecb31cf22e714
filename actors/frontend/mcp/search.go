package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
)

type globInput struct {
	where
	Pattern string `json:"pattern" jsonschema:"doublestar pattern such as **/*.go or src/**/test_*.py, relative to path"`
	Path    string `json:"path,omitempty" jsonschema:"directory to begin in; default: the working folder"`
	Limit   int    `json:"limit,omitempty" jsonschema:"how many paths to return at most; default 1000"`
	Ignored bool   `json:"include_ignored,omitempty" jsonschema:"also what .gitignore excludes"`
}

func (in globInput) about() (directory, path string) { return in.Directory, in.Path }

// GlobResult is what glob returns.
type GlobResult struct {
	Paths     []string `json:"paths" jsonschema:"relative to the working folder, newest first"`
	Truncated bool     `json:"truncated" jsonschema:"there are more"`
}

type grepInput struct {
	where
	Pattern    string `json:"pattern" jsonschema:"regular expression (RE2 syntax), or plain text with literal"`
	Path       string `json:"path,omitempty" jsonschema:"file or directory to search; default: the working folder"`
	Glob       string `json:"glob,omitempty" jsonschema:"search only paths that match, for instance **/*.go"`
	Mode       string `json:"output_mode,omitempty" jsonschema:"files_with_matches (default: paths only), content (matching lines), or count (matches by file)"`
	IgnoreCase bool   `json:"ignore_case,omitempty"`
	Literal    bool   `json:"literal,omitempty" jsonschema:"the pattern is plain text"`
	Multiline  bool   `json:"multiline,omitempty" jsonschema:"a match may span lines"`
	Before     int    `json:"before,omitempty" jsonschema:"lines of context before a match (content)"`
	After      int    `json:"after,omitempty" jsonschema:"lines of context after a match (content)"`
	Limit      int    `json:"limit,omitempty" jsonschema:"how many files, or lines (content), to return at most; default 200"`
	Ignored    bool   `json:"include_ignored,omitempty" jsonschema:"also what .gitignore excludes"`
}

func (in grepInput) about() (directory, path string) { return in.Directory, in.Path }

// GrepResult is what grep returns; the field of its mode is set.
type GrepResult struct {
	Mode      string      `json:"output_mode"`
	Files     []string    `json:"files,omitempty" jsonschema:"files_with_matches: paths relative to the working folder"`
	Matches   []GrepMatch `json:"matches,omitempty" jsonschema:"content: the lines"`
	Counts    []GrepCount `json:"counts,omitempty" jsonschema:"count: matching lines by file"`
	Truncated bool        `json:"truncated" jsonschema:"there are more"`
}

// GrepMatch is a line.
type GrepMatch struct {
	Path    string `json:"path"`
	Line    int    `json:"line" jsonschema:"from 1"`
	Text    string `json:"text"`
	Context bool   `json:"context,omitempty" jsonschema:"no match itself, but near one"`
}

// GrepCount counts a file's matching lines.
type GrepCount struct {
	Path  string `json:"path"`
	Count int    `json:"count"`
}

func (s *Server) addSearchTools() {
	add(s, definition{
		name: "glob", description: descGlob,
		hints:  hints{title: "Find files by name", readOnly: true, idempotent: true},
		limits: map[string]func(*jsonschema.Schema){"limit": between(0, 10000)},
	}, glob)
	add(s, definition{
		name: "grep", description: descGrep,
		hints: hints{title: "Search file contents", readOnly: true, idempotent: true},
		limits: map[string]func(*jsonschema.Schema){
			"output_mode": oneOf(string(api.GrepFiles), string(api.GrepContent), string(api.GrepCount)),
			"before":      between(0, 50), "after": between(0, 50), "limit": between(0, 5000),
		},
	}, grep)
}

func glob(ctx context.Context, live api.Live, in globInput) (*GlobResult, string, error) {
	r, err := live.Glob(ctx, api.GlobRequest{Directory: in.Directory, Pattern: in.Pattern, Path: in.Path, Limit: in.Limit, Ignored: in.Ignored})
	if err != nil {
		return nil, "", err
	}
	res := &GlobResult{Paths: some(r.Paths, len(r.Paths)), Truncated: r.Truncated}
	return res, listing(res.Paths, "path", r.Truncated), nil
}

func grep(ctx context.Context, live api.Live, in grepInput) (*GrepResult, string, error) {
	if in.Mode == "" {
		in.Mode = string(api.GrepFiles)
	}
	if in.Limit == 0 {
		in.Limit = 200
	}
	r, err := live.Grep(ctx, api.GrepRequest{
		Directory: in.Directory, Pattern: in.Pattern, Path: in.Path, Glob: in.Glob, Mode: api.GrepMode(in.Mode),
		IgnoreCase: in.IgnoreCase, Literal: in.Literal, Multiline: in.Multiline,
		Before: in.Before, After: in.After, Limit: in.Limit, Ignored: in.Ignored,
	})
	if err != nil {
		return nil, "", err
	}
	res := &GrepResult{Mode: in.Mode, Truncated: r.Truncated}
	var lines []string
	what := "file"
	switch api.GrepMode(in.Mode) {
	case api.GrepContent:
		what = "line"
		res.Matches = make([]GrepMatch, 0, len(r.Matches))
		for _, m := range r.Matches {
			m := GrepMatch{Path: frontend.Valid(m.Path), Line: m.Line, Text: frontend.Valid(m.Text), Context: m.Context}
			res.Matches = append(res.Matches, m)
			sep := ":"
			if m.Context {
				sep = "-"
			}
			lines = append(lines, fmt.Sprintf("%s%s%d%s%s", m.Path, sep, m.Line, sep, m.Text))
		}
	case api.GrepCount:
		res.Counts = make([]GrepCount, 0, len(r.Counts))
		for _, c := range r.Counts {
			res.Counts = append(res.Counts, GrepCount{Path: frontend.Valid(c.Path), Count: c.Count})
			lines = append(lines, fmt.Sprintf("%s: %d", frontend.Valid(c.Path), c.Count))
		}
	default:
		res.Files = some(r.Files, len(r.Files))
		lines = res.Files
	}
	return res, listing(lines, what, r.Truncated), nil
}

// listing is a list for reading.
func listing(lines []string, what string, truncated bool) string {
	if len(lines) == 0 {
		return "[nothing found]"
	}
	end := "[" + count(len(lines), what)
	if truncated {
		end += "; there are more: narrow the search down, or raise limit"
	}
	return strings.Join(lines, "\n") + "\n" + end + "]"
}
