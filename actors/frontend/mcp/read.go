package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
)

const (
	defaultLines = 2000
	maxLines     = 20000
	maxRead      = 256 << 10 // bytes in one result
	readChunk    = 256 << 10
	maxSkipped   = 64 << 20 // bytes that are read to find a line
)

type readInput struct {
	where
	Path     string `json:"path" jsonschema:"file to read, relative to the working folder"`
	Offset   int64  `json:"offset,omitempty" jsonschema:"first line to return, from 1 (with base64: first byte, from 0)"`
	Limit    int64  `json:"limit,omitempty" jsonschema:"how many lines to return; default 2000 (with base64: bytes)"`
	Encoding string `json:"encoding,omitempty" jsonschema:"text (default), or base64 for binary files"`
}

func (in readInput) about() (directory, path string) { return in.Directory, in.Path }

// FileResult is what read_file returns.
type FileResult struct {
	Path       string    `json:"path" jsonschema:"relative to the working folder"`
	Content    string    `json:"content"`
	Encoding   string    `json:"encoding" jsonschema:"text or base64"`
	Size       int64     `json:"size" jsonschema:"of the whole file, in bytes"`
	StartLine  int64     `json:"start_line,omitempty" jsonschema:"number of the first line returned"`
	Lines      int64     `json:"lines,omitempty" jsonschema:"how many lines are returned"`
	Truncated  bool      `json:"truncated" jsonschema:"more follows"`
	NextOffset int64     `json:"next_offset,omitempty" jsonschema:"where to go on, if truncated"`
	ModifiedAt time.Time `json:"modified_at"`
}

type listInput struct {
	where
	Path  string `json:"path,omitempty" jsonschema:"directory to list, relative to the working folder; default: the folder itself"`
	Depth int    `json:"depth,omitempty" jsonschema:"how many levels to list; default 1"`
	Limit int    `json:"limit,omitempty" jsonschema:"how many entries to return at most; default 1000"`
}

func (in listInput) about() (directory, path string) { return in.Directory, in.Path }

// ListResult is what list_directory returns.
type ListResult struct {
	Path      string      `json:"path"`
	Entries   []ListEntry `json:"entries"`
	Truncated bool        `json:"truncated" jsonschema:"there are more entries"`
}

// ListEntry is one name.
type ListEntry struct {
	Path       string    `json:"path" jsonschema:"relative to the working folder"`
	Type       string    `json:"type" jsonschema:"file, directory, symlink or other"`
	Size       int64     `json:"size"`
	Mode       string    `json:"mode" jsonschema:"permissions, octal"`
	ModifiedAt time.Time `json:"modified_at"`
	Target     string    `json:"target,omitempty" jsonschema:"what a symlink points to"`
	Escaped    bool      `json:"escaped,omitempty" jsonschema:"the name is no valid text and is written as a quoted string"`
}

func (s *Server) addReadTools() {
	add(s, definition{
		name: "read_file", description: descRead,
		hints: hints{title: "Read a file", readOnly: true, idempotent: true},
		limits: map[string]func(*jsonschema.Schema){
			"encoding": oneOf("text", "base64"), "offset": between(0, 1<<53), "limit": between(0, maxRead),
		},
	}, readFile)
	add(s, definition{
		name: "list_directory", description: descList,
		hints:  hints{title: "List a directory", readOnly: true, idempotent: true},
		limits: map[string]func(*jsonschema.Schema){"depth": between(0, 20), "limit": between(0, 10000)},
	}, listDirectory)
}

func readFile(ctx context.Context, live api.Live, in readInput) (*FileResult, string, error) {
	if in.Encoding == "base64" {
		return readBytes(ctx, live, in)
	}
	return readLines(ctx, live, in)
}

func readBytes(ctx context.Context, live api.Live, in readInput) (*FileResult, string, error) {
	limit := in.Limit
	if limit == 0 {
		limit = maxRead
	}
	c, err := live.ReadFile(ctx, api.ReadFileRequest{Directory: in.Directory, Path: in.Path, Offset: in.Offset, Limit: limit, MaxBytes: maxRead})
	if err != nil {
		return nil, "", err
	}
	res := &FileResult{Path: frontend.Valid(c.Path), Content: base64.StdEncoding.EncodeToString(c.Data), Encoding: "base64", Size: c.Size, ModifiedAt: c.ModTime}
	if end := in.Offset + int64(len(c.Data)); end < c.Size {
		res.Truncated, res.NextOffset = true, end
	}
	return res, res.Content, nil
}

// readLines reads the file piece by piece until it has the lines wanted.
func readLines(ctx context.Context, live api.Live, in readInput) (*FileResult, string, error) {
	first, limit := max(in.Offset, 1), in.Limit
	if limit == 0 {
		limit = defaultLines
	}
	limit = min(limit, maxLines)
	var (
		res  = &FileResult{Encoding: "text", StartLine: first}
		kept []byte
		line = int64(1) // at pos
		pos  int64
		more bool
	)
	for {
		c, err := live.ReadFile(ctx, api.ReadFileRequest{Directory: in.Directory, Path: in.Path, Offset: pos, Limit: readChunk, MaxBytes: readChunk})
		if err != nil {
			return nil, "", err
		}
		res.Path, res.Size, res.ModifiedAt = frontend.Valid(c.Path), c.Size, c.ModTime
		if pos == 0 && bytes.IndexByte(c.Data[:min(len(c.Data), 8192)], 0) >= 0 {
			return nil, "", binaryError(in.Path, c)
		}
		kept, line, more = takeLines(kept, c.Data, line, first, limit)
		pos += int64(len(c.Data))
		if more || len(kept) > maxRead || len(c.Data) == 0 || pos >= c.Size {
			break
		}
		if pos > maxSkipped && line < first {
			return nil, "", fmt.Errorf("line %d is more than %d MiB into the file: %w", first, maxSkipped>>20, api.ErrTooLarge)
		}
	}
	if len(kept) > maxRead {
		kept, more = cutLines(kept, maxRead), true
	}
	if !utf8.Valid(kept) {
		return nil, "", errors.New("the file is not UTF-8 text: call read_file with encoding base64, or convert it with execute_command (iconv, file)")
	}
	res.Content, res.Truncated = string(kept), more
	res.Lines = int64(bytes.Count(kept, []byte("\n")))
	if len(kept) > 0 && kept[len(kept)-1] != '\n' {
		res.Lines++
	}
	if res.Lines == 0 && first > 1 {
		return nil, "", fmt.Errorf("the file has no line %d", first)
	}
	text := res.Content
	if more {
		res.NextOffset = first + res.Lines
		text += fmt.Sprintf("\n[lines %d to %d of a file of %d bytes; more follows: offset %d]", first, first+res.Lines-1, res.Size, res.NextOffset)
	}
	return res, text, nil
}

// takeLines appends to kept what belongs to the lines wanted. It returns the
// line in which data ends, and whether lines follow that are not wanted.
func takeLines(kept, data []byte, line, first, limit int64) ([]byte, int64, bool) {
	for len(data) > 0 {
		if line >= first+limit {
			return kept, line, true
		}
		n := bytes.IndexByte(data, '\n') + 1
		end := n > 0
		if !end {
			n = len(data)
		}
		if line >= first {
			kept = append(kept, data[:n]...)
			if len(kept) > maxRead {
				return kept, line, false
			}
		}
		if end {
			line++
		}
		data = data[n:]
	}
	return kept, line, false
}

// cutLines cuts at the end of a line, or of a character in a very long one.
func cutLines(b []byte, n int) []byte {
	if i := bytes.LastIndexByte(b[:n], '\n'); i > 0 {
		return b[:i+1]
	}
	return frontend.Whole(b[:n])
}

func binaryError(path string, c api.FileContent) error {
	return fmt.Errorf("%s is a binary file (%s, %d bytes): call read_file with encoding base64, or look at it with execute_command (file, xxd)",
		path, http.DetectContentType(c.Data), c.Size)
}

func listDirectory(ctx context.Context, live api.Live, in listInput) (*ListResult, string, error) {
	if in.Limit == 0 {
		in.Limit = 1000
	}
	l, err := live.List(ctx, api.ListRequest{Directory: in.Directory, Path: in.Path, Depth: in.Depth, Limit: in.Limit})
	if err != nil {
		return nil, "", err
	}
	res := &ListResult{Path: frontend.Valid(l.Path), Entries: make([]ListEntry, 0, len(l.Entries)), Truncated: l.Truncated}
	var b bytes.Buffer
	for _, e := range l.Entries {
		res.Entries = append(res.Entries, ListEntry{
			Path: frontend.Valid(e.Path), Type: e.Type, Size: e.Size, Mode: fmt.Sprintf("%04o", e.Mode&0o7777),
			ModifiedAt: e.ModTime, Target: frontend.Valid(e.Target), Escaped: e.Escaped,
		})
		switch e.Type {
		case "directory":
			fmt.Fprintf(&b, "%s/\n", frontend.Valid(e.Path))
		case "symlink":
			fmt.Fprintf(&b, "%s -> %s\n", frontend.Valid(e.Path), frontend.Valid(e.Target))
		default:
			fmt.Fprintf(&b, "%s (%d bytes, %s)\n", frontend.Valid(e.Path), e.Size, fs.FileMode(e.Mode&0o777))
		}
	}
	fmt.Fprintf(&b, "[%d entries", len(l.Entries))
	if l.Truncated {
		b.WriteString("; there are more")
	}
	b.WriteString("]")
	return res, b.String(), nil
}
