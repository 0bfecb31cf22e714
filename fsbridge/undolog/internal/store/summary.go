package store

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

const (
	// OpenName is the directory below wal/ of the open step.
	OpenName = "in_progress"
	// maxSummary bounds summary.json, in bytes.
	maxSummary = 16 << 20
	// maxPathLine bounds one line of the file "paths", in bytes: a path of 16,000 levels with names of 255 bytes, in base64. Deeper trees are
	// not removed as a whole either.
	maxPathLine = 8 << 20
)

// LoadEntry reads a summary; if it is damaged, what the journal's first record
// tells.
func LoadEntry(dir *StepDir, id format.StepID) format.Entry {
	b, err := hostfs.ReadSmall(dir.FD, "summary.json", maxSummary)
	var e format.Entry
	if err == nil {
		if e, err = decodeSummary(b); err == nil && e.StepID != id {
			err = fmt.Errorf("it is about step %d", e.StepID)
		}
	}
	if err == nil {
		return e
	}
	e = format.Entry{StepID: id, Type: format.TypeCommand, Damaged: "summary: " + err.Error()}
	if rec, err := format.ReadStep(dir.FD); err == nil && rec.ID == id {
		e = EntryOf(rec)
		e.Damaged = "summary cannot be read"
	}
	return e
}

// decodeSummary parses summary.json. It trusts nothing in it.
func decodeSummary(b []byte) (format.Entry, error) {
	var e format.Entry
	if err := json.Unmarshal(b, &e); err != nil {
		return format.Entry{}, err
	}
	switch {
	case e.StepID == 0 || e.Seq == 0 || e.Seq > math.MaxInt64:
		return format.Entry{}, errors.New("no step id or seq")
	case e.Type != format.TypeCommand && e.Type != format.TypeAPI && e.Type != format.TypeAmbient:
		return format.Entry{}, fmt.Errorf("unknown type %q", e.Type)
	case e.AffectedCount < 0 || e.StoredBytes < 0 || e.CommandCount < 0 || len(e.Commands) > format.MaxStepCommands:
		return format.Entry{}, errors.New("impossible counts")
	case e.Group < 0 || e.GroupStart && e.Group == 0:
		return format.Entry{}, fmt.Errorf("impossible group %d", e.Group)
	}
	e.Barriers = nil
	return e, nil
}

// EntryOf is the history entry of a step of which only the first record is known.
func EntryOf(rec *format.Step) format.Entry {
	return format.Entry{Seq: rec.Seq, StepID: rec.ID, Type: rec.Type, Command: rec.Command,
		Argv: rec.Argv, Dir: rec.Dir, Folders: rec.Folders, StartedAt: rec.StartedAt, Group: rec.Group}
}

// affectedLine is one line of the file "paths".
type affectedLine struct {
	Path   []byte `json:"p"` // base64: any bytes survive
	Before bool   `json:"b,omitempty"`
	After  bool   `json:"a,omitempty"`
	Change string `json:"c"`
	Type   string `json:"t"`
}

// WritePaths writes the file "paths" of a step directory.
func WritePaths(dirfd int, list []format.Affected) error {
	var buf bytes.Buffer
	z, err := zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(512<<10))
	if err != nil {
		return err
	}
	enc := json.NewEncoder(z)
	for _, a := range list {
		if err := enc.Encode(affectedLine{[]byte(a.Path), a.ExistedBefore, a.ExistsAfter, a.Change, a.Type}); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return WriteFile(dirfd, "paths", buf.Bytes())
}

// ReadPaths calls f for each affected path of the step directory behind dirfd.
func ReadPaths(dirfd int, f func(format.Affected) error) error {
	fd, err := hostfs.OpenRegular(dirfd, "paths")
	if err != nil {
		return fmt.Errorf("%w: %w", format.ErrDamaged, err)
	}
	defer hostfs.Close(fd)
	return decodePaths(&fileReader{fd: fd, end: math.MaxInt64}, f)
}

// decodePaths reads the format of the file "paths". Memory is bounded by
// maxPathLine whatever the input.
func decodePaths(r io.Reader, f func(format.Affected) error) error {
	z, err := zstd.NewReader(eofReader{r}, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return fmt.Errorf("%w: paths: %w", format.ErrDamaged, err)
	}
	defer z.Close()
	sc := bufio.NewScanner(z)
	sc.Buffer(make([]byte, 16<<10), maxPathLine)
	for sc.Scan() {
		var a affectedLine
		if err := json.Unmarshal(sc.Bytes(), &a); err != nil {
			return fmt.Errorf("%w: paths: %w", format.ErrDamaged, err)
		}
		if _, err := hostfs.SplitPath(string(a.Path)); err != nil {
			return fmt.Errorf("%w: paths: %w", format.ErrDamaged, err)
		}
		if err := f(format.Affected{Path: string(a.Path), ExistedBefore: a.Before, ExistsAfter: a.After, Change: a.Change, Type: a.Type}); err != nil {
			return err
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("%w: paths: %w", format.ErrDamaged, err)
	}
	return nil
}

// eofReader makes the end of a file an io.EOF.
type eofReader struct{ r io.Reader }

func (e eofReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// summary is summary.json.
type summary struct {
	format.Entry
	Journal *journalEnd `json:"journal,omitempty"`
}

// journalEnd says how long the journal beside a summary is, so that one that was cut between two records is
// recognised. A summary may lie beside another journal, too, for a while: that of an undo of the step.
type journalEnd struct {
	Bytes int64  `json:"bytes"`
	Tick  uint64 `json:"tick,omitempty"` // of the journal's first record
}

// endOf is the end of the journal in the step directory behind dirfd, or nil. What was noted there before
// of the same journal counts: it may have been cut since.
func endOf(dirfd int) *journalEnd {
	rec, err := format.ReadStep(dirfd)
	if err != nil {
		return nil
	}
	st, err := hostfs.StatAt(dirfd, "journal")
	if err != nil {
		return nil
	}
	end := &journalEnd{Bytes: st.Size, Tick: rec.Tick}
	if was := notedEnd(dirfd); was != nil && was.Tick == end.Tick {
		end.Bytes = max(end.Bytes, was.Bytes)
	}
	return end
}

// notedEnd is what the summary in the step directory behind dirfd says of a journal. Those of older programs
// say nothing.
func notedEnd(dirfd int) *journalEnd {
	b, err := hostfs.ReadSmall(dirfd, "summary.json", maxSummary)
	var s struct {
		Journal *journalEnd `json:"journal"`
	}
	if err != nil || json.Unmarshal(b, &s) != nil {
		return nil
	}
	return s.Journal
}

// WriteSummary writes summary.json of a step directory, the journal of which is complete.
func WriteSummary(dirfd int, e format.Entry) error {
	e.Barriers = nil
	b, err := json.Marshal(summary{e, endOf(dirfd)})
	if err != nil {
		return err
	}
	return WriteFile(dirfd, "summary.json", append(b, '\n'))
}
