package texts

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Limits of a line diff. Beyond them what differs is shown as replaced as a
// whole, which is longer and still right.
const (
	maxEdits = 1500       // insertions and deletions between the common ends
	maxWork  = 20_000_000 // lines compared
	context  = 3
)

// Unified writes a whole unified diff that turns content a of the file from into content b of the
// file to. The names have their prefixes, as in "a/path"; an empty one says that there is no such
// file. It writes nothing if the contents are the same, and one line in words if one of them is
// binary. It returns the errors of w.
func Unified(w io.Writer, from, to string, a, b []byte) error {
	if bytes.Equal(a, b) {
		return nil
	}
	if IsBinary(a) || IsBinary(b) {
		_, err := fmt.Fprintf(w, "Binary files %s and %s differ\n", DiffName(from), DiffName(to))
		return err
	}
	if _, err := fmt.Fprintf(w, "--- %s\n+++ %s\n", headName(from), headName(to)); err != nil {
		return err
	}
	return Hunks(w, a, b)
}

// DiffName is [Quote], and /dev/null for no name.
func DiffName(name string) string {
	if name == "" {
		return "/dev/null"
	}
	return Quote(name)
}

// headName is Name for the lines with --- and +++, in which a name with a space ends with a tab.
func headName(name string) string {
	q := DiffName(name)
	if q == name && strings.Contains(name, " ") {
		q += "\t"
	}
	return q
}

// Quote returns a path as git and patch read it in the head of a diff: within quotes if it has
// quotes, backslashes, control characters or bytes beyond ASCII, else as it is.
func Quote(path string) string {
	plain := true
	for i := range len(path) {
		c := path[i]
		plain = plain && c >= 0x20 && c < 0x7f && c != '"' && c != '\\'
	}
	if plain {
		return path
	}
	b := []byte{'"'}
	for i := range len(path) {
		switch c := path[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\t':
			b = append(b, '\\', 't')
		case c < 0x20 || c >= 0x7f:
			b = fmt.Appendf(b, "\\%03o", c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

// IsBinary tells, by the rule of git, whether a content is not text: there is a
// zero byte in its first 8,000.
func IsBinary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 }

// Hunks writes the hunks of a unified diff from a to b, without the lines that name
// the files. It returns the errors of w.
func Hunks(w io.Writer, a, b []byte) error {
	la, lb := splitLines(a), splitLines(b)
	edits := diffLines(la, lb)
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].a-edits[n-1].aEnd <= 2*context {
			n++
		}
		if err := writeHunk(w, la, lb, edits[:n]); err != nil {
			return err
		}
		edits = edits[n:]
	}
	return nil
}

// splitLines cuts at newlines, which stay with their lines.
func splitLines(b []byte) [][]byte {
	if len(b) == 0 {
		return nil
	}
	lines := bytes.SplitAfter(b, []byte{'\n'})
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// edit replaces lines [a, aEnd) of the one by [b, bEnd) of the other.
type edit struct{ a, aEnd, b, bEnd int }

func writeHunk(w io.Writer, la, lb [][]byte, edits []edit) error {
	first, last := edits[0], edits[len(edits)-1]
	lead := min(context, first.a)
	tail := min(context, len(la)-last.aEnd)
	a, b := first.a-lead, first.b-lead
	out := fmt.Appendf(nil, "@@ -%s +%s @@\n", hunkRange(a, last.aEnd+tail-a), hunkRange(b, last.bEnd+tail-b))
	for _, e := range edits {
		out = appendLines(out, ' ', la[a:e.a])
		out = appendLines(out, '-', la[e.a:e.aEnd])
		out = appendLines(out, '+', lb[e.b:e.bEnd])
		a = e.aEnd
	}
	_, err := w.Write(appendLines(out, ' ', la[a:last.aEnd+tail]))
	return err
}

func hunkRange(start, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", start)
	case 1:
		return fmt.Sprint(start + 1)
	}
	return fmt.Sprintf("%d,%d", start+1, n)
}

// appendLines adds lines to out, each after the sign.
func appendLines(out []byte, sign byte, lines [][]byte) []byte {
	n := 0
	for _, line := range lines {
		n += 1 + len(line)
	}
	out = slices.Grow(out, n)
	for _, line := range lines {
		out = append(append(out, sign), line...)
		if len(line) == 0 || line[len(line)-1] != '\n' {
			out = append(out, "\n\\ No newline at end of file\n"...)
		}
	}
	return out
}

// diffLines finds a shortest list of edits (Myers) between two files, unless
// that takes too long.
func diffLines(la, lb [][]byte) []edit {
	switch {
	case len(la) == 0 && len(lb) == 0:
		return nil
	case len(la) == 0 || len(lb) == 0: // a file that is new, or gone
		return []edit{{0, len(la), 0, len(lb)}}
	}
	ids := map[string]int{}
	number := func(lines [][]byte) []int {
		out := make([]int, len(lines))
		for i, l := range lines {
			id, ok := ids[string(l)]
			if !ok {
				id = len(ids)
				ids[string(l)] = id
			}
			out[i] = id
		}
		return out
	}
	a, b := number(la), number(lb)
	lead := 0
	for lead < len(a) && lead < len(b) && a[lead] == b[lead] {
		lead++
	}
	a, b = a[lead:], b[lead:]
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) == 0 && len(b) == 0 {
		return nil
	}
	edits := myers(a, b)
	for i := range edits {
		e := &edits[i]
		e.a, e.aEnd, e.b, e.bEnd = e.a+lead, e.aEnd+lead, e.b+lead, e.bEnd+lead
	}
	return edits
}

// myers is the greedy algorithm of "An O(ND) Difference Algorithm", bounded.
func myers(a, b []int) []edit {
	whole := []edit{{0, len(a), 0, len(b)}}
	limit := min(maxEdits, len(a)+len(b))
	v := make([]int32, 2*limit+3) // furthest x on diagonal k, at k+limit+1
	var trace [][]int32
	work := 0
	for d := 0; d <= limit; d++ {
		trace = append(trace, append([]int32(nil), v[limit+1-d:limit+2+d]...))
		for k := -d; k <= d; k += 2 {
			var x int
			if k == -d || (k != d && v[limit+k] < v[limit+k+2]) {
				x = int(v[limit+k+2])
			} else {
				x = int(v[limit+k]) + 1
			}
			y := x - k
			for x < len(a) && y < len(b) && a[x] == b[y] {
				x, y = x+1, y+1
				work++
			}
			v[limit+1+k] = int32(x)
			if x >= len(a) && y >= len(b) {
				return backtrack(trace, len(a), len(b))
			}
			if work++; work > maxWork {
				return whole
			}
		}
	}
	return whole
}

// backtrack walks the trace from the end; trace[d] holds diagonals -d..d as
// they were before round d.
func backtrack(trace [][]int32, x, y int) []edit {
	var out []edit
	for d := len(trace) - 1; d > 0; d-- {
		at := func(k int) int {
			if k < -d || k > d {
				return -1
			}
			return int(trace[d][k+d])
		}
		k := x - y
		prev := k - 1
		if k == -d || (k != d && at(k-1) < at(k+1)) {
			prev = k + 1
		}
		px := at(prev)
		py := px - prev
		sx, sy := px, py // where the snake of this round begins
		if prev == k+1 {
			sy++
		} else {
			sx++
		}
		e := edit{px, sx, py, sy}
		if n := len(out); n > 0 && out[n-1].a == e.aEnd && out[n-1].b == e.bEnd {
			out[n-1].a, out[n-1].b = e.a, e.b
		} else {
			out = append(out, e)
		}
		x, y = px, py
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}
