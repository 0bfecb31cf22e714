package approval

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// MaxChainLine is how long a line may be, in bytes, its line feed left out.
const MaxChainLine = 64 << 10

// ChainHead says where a log ends.
type ChainHead struct {
	Lines int    `json:"lines"`
	Hash  string `json:"hash"` // of the last line
}

// ChainLine is one of a log. Its Raw is valid until the next one is read.
type ChainLine struct {
	Number int // from 1
	Raw    []byte
	Hash   string
	// Prev is what the line says of the one before it; Chained, that it says something.
	Prev    string
	Chained bool
}

// ChainProblem is what is wrong at a line: there, or between it and the one before it.
type ChainProblem struct {
	Line int    `json:"line"`
	What string `json:"what"`
}

// ChainReport is what [ReadChain] found.
type ChainReport struct {
	Lines     int            `json:"lines"`
	Unchained int            `json:"unchained"` // lines of an older version, at the beginning
	Hash      string         `json:"hash"`      // of the last line; "" if there is none
	Problems  []ChainProblem `json:"problems"`
	// Contains tells whether the hash that was asked for is one of a line.
	Contains bool `json:"-"`

	torn bool // the last line has no line feed
}

// mostProblems bounds a report.
const mostProblems = 100

func (r *ChainReport) problem(line int, format string, args ...any) {
	if len(r.Problems) < mostProblems {
		r.Problems = append(r.Problems, ChainProblem{line, fmt.Sprintf(format, args...)})
	}
}

// headFile is the head of the log at path.
func headFile(name string) string { return strings.TrimSuffix(name, filepath.Ext(name)) + ".head" }

// ChainFile reads the log at path and its head, and calls each, which may be nil, for every
// line. A log that is not there has no lines: a head without it is a problem. looked is a
// hash to look for, or "".
func ChainFile(path, looked string, each func(ChainLine) error) (ChainReport, error) {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return ChainReport{}, nil
	}
	if err != nil {
		return ChainReport{}, err
	}
	defer dir.Close()
	head, err := readHead(dir, headFile(filepath.Base(path)))
	if err != nil {
		return ChainReport{}, err
	}
	f, err := openRegular(dir, filepath.Base(path), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return ReadChain(strings.NewReader(""), head, looked, each)
	}
	if err != nil {
		return ChainReport{}, err
	}
	defer f.Close()
	return ReadChain(f, head, looked, each)
}

// openRegular opens a regular file that nobody put a link in the place of.
func openRegular(dir *os.Root, name string, flag int) (*os.File, error) {
	if info, err := dir.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: move it away", filepath.Join(dir.Name(), name))
	}
	return dir.OpenFile(name, flag, 0o600)
}

// maxHead is how long a head may be.
const maxHead = 4 << 10

// readHead returns nil if there is none.
func readHead(dir *os.Root, name string) (*ChainHead, error) {
	f, err := openRegular(dir, name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxHead))
	if err != nil {
		return nil, err
	}
	h := &ChainHead{}
	if json.Unmarshal(b, h) != nil || h.Lines < 0 {
		return &ChainHead{Lines: -1}, nil // ReadChain says that it is damaged
	}
	return h, nil
}

// ReadChain reads a log with its head, nil if there is none, as [ChainFile] does. An error is one
// of r or of each; what is wrong with the log is in the report.
func ReadChain(r io.Reader, head *ChainHead, looked string, each func(ChainLine) error) (ChainReport, error) {
	report := ChainReport{Problems: []ChainProblem{}}
	atHead := head == nil || head.Lines <= 0
	in := bufio.NewReaderSize(r, MaxChainLine+1)
	previous := ""
	for {
		raw, err := in.ReadSlice('\n')
		if err != nil && err != io.EOF && !errors.Is(err, bufio.ErrBufferFull) {
			return report, err
		}
		if len(raw) == 0 {
			break
		}
		report.Lines++
		line := ChainLine{Number: report.Lines}
		line.Raw, report.torn = bytes.TrimSuffix(raw, []byte("\n")), raw[len(raw)-1] != '\n'
		line.Hash = hashOf(line.Raw)
		report.check(&line, previous)
		previous = line.Hash
		report.Contains = report.Contains || looked == line.Hash
		if head != nil && line.Number == head.Lines {
			atHead = true
			if line.Hash != head.Hash {
				report.problem(line.Number, "it is another line than the one that was written last when the head was")
			}
		}
		if each != nil {
			if err := each(line); err != nil {
				return report, err
			}
		}
	}
	report.Hash = previous
	switch {
	case head != nil && head.Lines < 0:
		report.problem(report.Lines, "the head, the file that says where the log ends, is damaged")
	case !atHead:
		report.problem(report.Lines, "%d lines were written, %d are there: the end was cut away", head.Lines, report.Lines)
	case head == nil && report.Lines > report.Unchained:
		report.problem(report.Lines, "there is no head, the file that says where the log ends: lines may have been cut away there")
	}
	return report, nil
}

func hashOf(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// check looks whether a line is one, and follows the one before it.
func (r *ChainReport) check(line *ChainLine, previous string) {
	var member struct {
		Prev *string `json:"prev"`
	}
	switch {
	case r.torn && len(line.Raw) >= MaxChainLine:
		r.problem(line.Number, "it is longer than %d bytes", MaxChainLine)
		return
	case json.Unmarshal(line.Raw, &member) != nil:
		what := "it is not a JSON object"
		if r.torn {
			what = "it was cut off"
		}
		r.problem(line.Number, "%s", what)
		return
	case r.torn:
		r.problem(line.Number, "its line feed was cut off")
	}
	if member.Prev != nil {
		line.Prev, line.Chained = *member.Prev, true
	}
	switch {
	case !line.Chained && r.Unchained == line.Number-1:
		r.Unchained++
	case !line.Chained:
		r.problem(line.Number, "it says nothing of the line before it: it was put in or changed")
	case line.Prev != previous:
		r.problem(line.Number, "the line before it is not the one that it was written after: lines were changed, moved or cut away there")
	}
}
