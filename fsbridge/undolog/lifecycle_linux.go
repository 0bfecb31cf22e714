package undolog

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
)

const (
	walName = "in_progress"
	// maxSummary bounds summary.json, in bytes.
	maxSummary = 16 << 20
	// maxPathLine bounds one line of the file "paths", in bytes.
	maxPathLine = 1 << 20
	// maxCommand bounds the command text that a step keeps, in bytes.
	maxCommand = 64 << 10
)

// load reads the summaries of all closed and undone steps.
func (l *Log) load() error {
	steps, err := l.loadEntries("steps")
	if err != nil {
		return err
	}
	redo, err := l.loadEntries("redo")
	if err != nil {
		return err
	}
	slices.Reverse(redo) // the oldest step is the next one to redo
	l.setEntries(steps, redo)
	return nil
}

// loadEntries reads the step directories below parent, sorted by seq. One
// whose summary cannot be read is listed as damaged.
func (l *Log) loadEntries(parent string) ([]*stepEntry, error) {
	fd, err := hostfs.OpenDirAt(l.dir.FD(), parent)
	if err != nil {
		return nil, unusable(l.o.Dir, err)
	}
	defer hostfs.Close(fd)
	names, err := hostfs.ReadDir(fd)
	if err != nil {
		return nil, unusable(l.o.Dir, err)
	}
	var out []*stepEntry
	for _, d := range names {
		id, err := parseStepID(d.Name)
		if err != nil {
			l.log.Warn("unknown entry in the undo directory", "path", parent+"/"+d.Name)
			continue
		}
		dir, err := openStepDir(fd, d.Name)
		if err != nil {
			l.log.Warn("step directory cannot be opened", "step_id", id, "err", err)
			continue
		}
		out = append(out, &stepEntry{Entry: loadEntry(dir, id), name: d.Name})
		_ = dir.close()
	}
	slices.SortFunc(out, bySeq)
	for _, e := range out {
		if e.Damaged != "" {
			l.warn(Warning{Code: WarnDamaged, Steps: []StepID{e.StepID},
				Message: fmt.Sprintf("step %d of the undo history is damaged: %s", e.StepID, e.Damaged)})
		}
	}
	return out, nil
}

// bySeq orders steps, the oldest first.
func bySeq(a, b *stepEntry) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.StepID, b.StepID))
}

// loadEntry reads a summary; if it is damaged, what the journal's first record
// tells.
func loadEntry(dir *stepDir, id StepID) Entry {
	b, err := hostfs.ReadSmall(dir.fd, "summary.json", maxSummary)
	var e Entry
	if err == nil {
		if e, err = decodeSummary(b); err == nil && e.StepID != id {
			err = fmt.Errorf("it is about step %d", e.StepID)
		}
	}
	if err == nil {
		return e
	}
	e = Entry{StepID: id, Type: TypeCommand, Damaged: "summary: " + err.Error()}
	if rec, err := journal.ReadStep(dir.fd); err == nil && rec.ID == id {
		e = entryOf(rec)
		e.Damaged = "summary cannot be read"
	}
	return e
}

// decodeSummary parses summary.json. It trusts nothing in it.
func decodeSummary(b []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(b, &e); err != nil {
		return Entry{}, err
	}
	switch {
	case e.StepID == 0 || e.Seq == 0 || e.Seq > math.MaxInt64:
		return Entry{}, errors.New("no step id or seq")
	case e.Type != TypeCommand && e.Type != TypeAPI && e.Type != TypeAmbient:
		return Entry{}, fmt.Errorf("unknown type %q", e.Type)
	case e.AffectedCount < 0 || e.StoredBytes < 0:
		return Entry{}, errors.New("negative counts")
	}
	e.Barriers = nil
	return e, nil
}

func entryOf(rec *journal.Step) Entry {
	return Entry{Seq: rec.Seq, StepID: rec.ID, Type: rec.Type, Command: rec.Command,
		Argv: rec.Argv, Dir: rec.Dir, StartedAt: rec.StartedAt}
}

// largestID is a number at or above every counter that the step directories
// show to be used.
func (l *Log) largestID() uint64 {
	var top uint64
	use := func(e *Entry) {
		id := e.StepID
		if id < 0 {
			id = -id
		}
		top = max(top, uint64(id), e.Seq)
	}
	for _, e := range append(l.stepEntries(), l.redoEntries()...) {
		use(&e.Entry)
	}
	if fd, err := hostfs.OpenDirPathAt(l.dir.FD(), "wal"); err == nil {
		defer hostfs.Close(fd)
		if d, err := openStepDir(fd, walName); err == nil {
			if rec, err := journal.ReadStep(d.fd); err == nil {
				e := entryOf(rec)
				use(&e)
			}
			_ = d.close()
		}
	}
	return top
}

// affectedLine is one line of the file "paths".
type affectedLine struct {
	Path   []byte `json:"p"` // base64: any bytes survive
	Before bool   `json:"b,omitempty"`
	After  bool   `json:"a,omitempty"`
	Change string `json:"c"`
	Type   string `json:"t"`
}

// writePaths writes the file "paths" of a step directory.
func writePaths(dirfd int, list []Affected) error {
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
	return writeFile(dirfd, "paths", buf.Bytes())
}

// readPaths calls f for each affected path of the step directory behind dirfd.
func readPaths(dirfd int, f func(Affected) error) error {
	fd, err := hostfs.OpenRegular(dirfd, "paths")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer hostfs.Close(fd)
	return decodePaths(&fileReader{fd: fd, end: math.MaxInt64}, f)
}

// decodePaths reads the format of the file "paths". Memory is bounded by
// maxPathLine whatever the input.
func decodePaths(r io.Reader, f func(Affected) error) error {
	z, err := zstd.NewReader(eofReader{r}, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return fmt.Errorf("%w: paths: %w", ErrDamaged, err)
	}
	defer z.Close()
	sc := bufio.NewScanner(z)
	sc.Buffer(make([]byte, 16<<10), maxPathLine)
	for sc.Scan() {
		var a affectedLine
		if err := json.Unmarshal(sc.Bytes(), &a); err != nil {
			return fmt.Errorf("%w: paths: %w", ErrDamaged, err)
		}
		if _, err := hostfs.SplitPath(string(a.Path)); err != nil {
			return fmt.Errorf("%w: paths: %w", ErrDamaged, err)
		}
		if err := f(Affected{Path: string(a.Path), ExistedBefore: a.Before, ExistsAfter: a.After, Change: a.Change, Type: a.Type}); err != nil {
			return err
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("%w: paths: %w", ErrDamaged, err)
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

// writeSummary writes summary.json of a step directory.
func writeSummary(dirfd int, e Entry) error {
	e.Barriers = nil
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return writeFile(dirfd, "summary.json", append(b, '\n'))
}

// History returns the closed steps and the barriers between them, newest
// first. It may be called at any time.
func (l *Log) History() ([]Entry, error) {
	steps := l.stepEntries()
	bars := l.barriers()
	var out []Entry
	for i := len(steps) - 1; i >= 0; i-- {
		e := steps[i].Entry
		e.Barriers = []Barrier{}
		for j := len(bars) - 1; j >= 0; j-- {
			if b := bars[j]; b.After == e.StepID {
				e.Barriers = append(e.Barriers, b)
				out = append(out, Entry{StepID: b.After, Type: TypeBarrier, StartedAt: b.At, EndedAt: b.At,
					AffectedPaths: b.Paths, AffectedCount: len(b.Paths), Barriers: []Barrier{b}})
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// Step returns a closed step with all paths it affected, or ErrNoStep.
func (l *Log) Step(id StepID) (*StepDetail, error) {
	for {
		d, gone, err := l.readStep(id)
		if !gone {
			return d, err
		}
	}
}

// readStep is Step at this moment. The step is gone if an undo or an eviction
// took its directory away while it was read.
func (l *Log) readStep(id StepID) (d *StepDetail, gone bool, err error) {
	for _, e := range l.stepEntries() {
		if e.StepID != id {
			continue
		}
		dir, err := l.openListed(e)
		if err != nil {
			return nil, false, err
		}
		defer dir.close()
		d := &StepDetail{Entry: e.Entry}
		d.Barriers = []Barrier{}
		for _, b := range l.barriers() {
			if b.After == id {
				d.Barriers = append(d.Barriers, b)
			}
		}
		err = readPaths(dir.fd, func(a Affected) error { d.Paths = append(d.Paths, a); return nil })
		return d, err != nil && !l.sameDir(e, dir), err
	}
	return nil, false, fmt.Errorf("%w: %d", ErrNoStep, id)
}

// sameDir tells whether dir is still the directory of e.
func (l *Log) sameDir(e *stepEntry, dir *stepDir) bool {
	again, err := l.openStepEntry(e)
	if err != nil {
		return !errors.Is(err, unix.ENOENT)
	}
	defer again.close()
	was, err1 := hostfs.StatFD(dir.fd)
	is, err2 := hostfs.StatFD(again.fd)
	return err1 != nil || err2 != nil || was.ID == is.ID
}

// Status describes the log. It may be called at any time.
func (l *Log) Status() LogStatus {
	s := LogStatus{Dir: l.o.Dir, Version: formatVersion}
	for _, e := range l.stepEntries() {
		s.Steps++
		s.StoredBytes += e.StoredBytes
		if !e.Compressed {
			s.RawBytes += e.StoredBytes
		}
	}
	s.Redoable = len(l.redoEntries())
	s.OpenStep, _ = l.Current()
	return s
}

// dropRedo forgets the undone steps.
func (l *Log) dropRedo() error {
	redo := l.redoEntries()
	if len(redo) == 0 {
		return nil
	}
	fd, err := hostfs.OpenDirPathAt(l.dir.FD(), "redo")
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	for _, e := range redo {
		if err := l.discardDir(fd, e.name); err != nil {
			return err
		}
	}
	l.setEntries(l.stepEntries(), nil)
	return nil
}

func (l *Log) nextSeq() (uint64, error) { return l.ids.nextSeq() }

// findRetained looks for the inode id among the retained ones of the closed
// steps, the newest first. It returns 0 if it is not there.
func (l *Log) findRetained(id hostfs.ID) (seq uint64, obj journal.ObjID, err error) {
	steps := l.stepEntries()
	for i := len(steps) - 1; i >= 0; i-- {
		dir, err := l.openStepEntry(steps[i])
		if err != nil {
			continue
		}
		obj, err = dir.findBlob(id)
		_ = dir.close()
		if err != nil || obj != journal.NoObj {
			return steps[i].Seq, obj, err
		}
	}
	return 0, 0, nil
}

// discardDir moves name below dirfd to trash/, in one rename; emptyTrash
// deletes it. A name that does not exist is fine.
func (l *Log) discardDir(dirfd int, name string) error {
	n, err := l.ids.nextSeq()
	if err != nil {
		return err
	}
	trash, err := hostfs.OpenDirPathAt(l.dir.FD(), "trash")
	if err != nil {
		return err
	}
	defer hostfs.Close(trash)
	err = hostfs.RenameAt(dirfd, name, trash, fmt.Sprint(n), 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
