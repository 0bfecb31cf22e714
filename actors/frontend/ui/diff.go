package ui

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/texts"
)

// diffWriter passes a unified diff on as it comes: all of it, or one path's part, up to a number of
// bytes. When no more is wanted it says so once, and drops the rest.
type diffWriter struct {
	w    http.ResponseWriter
	path string // empty: all
	left int64  // bytes
	full func() // called when no more is wanted

	began, cut bool
	line       []byte // the beginning of a line, while it is not known where it belongs
	mine       bool   // the part that is written now is wanted
	inLine     bool   // the rest of a line comes
}

const header = "diff --git "

// Write implements [io.Writer].
func (d *diffWriter) Write(p []byte) (int, error) {
	n := len(p)
	if d.cut {
		return n, nil
	}
	if d.path == "" {
		d.pass(p)
		return n, nil
	}
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n') + 1
		if end == 0 {
			end = len(p)
		}
		part := p[:end]
		p = p[end:]
		whole := part[len(part)-1] == '\n'
		if !d.inLine {
			d.line = append(d.line, part...)
			if !whole && len(d.line) < 16<<10 { // a path has at most 4096 bytes, each of which takes up to four
				continue
			}
			part, d.line = d.line, d.line[:0]
			d.begin(part)
		}
		d.inLine = !whole
		if d.mine {
			d.pass(part)
		}
	}
	return n, nil
}

// begin looks whether a line begins another path's part.
func (d *diffWriter) begin(line []byte) {
	text := strings.TrimSuffix(string(line), "\n")
	if names, ok := strings.CutPrefix(text, header); ok {
		d.mine = strings.HasPrefix(names, texts.Quote("a/"+d.path)+" ") || strings.HasSuffix(names, " "+texts.Quote("b/"+d.path))
		return
	}
	for _, word := range []string{"New dir ", "Deleted dir "} {
		if name, ok := strings.CutPrefix(text, word); ok {
			d.mine = name == texts.Quote(d.path)
		}
	}
}

// pass writes what is left room for.
func (d *diffWriter) pass(p []byte) {
	if d.cut {
		return
	}
	d.began = true
	if int64(len(p)) > d.left {
		p, d.cut = p[:d.left], true
	}
	d.left -= int64(len(p))
	if _, err := d.w.Write(p); err != nil {
		d.cut = true
	}
	if d.cut {
		_, _ = io.WriteString(d.w, "\n\\ The rest is not shown\n")
		d.full()
	}
}

// end writes what waits for the end of its line.
func (d *diffWriter) end() {
	if d.mine && len(d.line) > 0 {
		d.pass(d.line)
	}
}

var _ io.Writer = (*diffWriter)(nil)
