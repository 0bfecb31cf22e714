package store

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// A file that is made anew has a new inode number. Two files tell so: "made"
// in a step directory, for that directory's own objects, and "remap" in the
// undo directory, for the steps before.

const (
	madeWords  = 5
	remapWords = 6
	// MadeSize is the length of a record of made, in bytes.
	MadeSize = 8*madeWords + format.RecordHeaderSize
	// maxMade bounds what is read of either file, in records.
	maxMade = 1 << 22
)

// Made says that obj, which had the number old, was made anew as new.
// It was freed before, or (copied) it was there until now, or (shared) it is
// there still by another name and only a copy of it is new.
type Made struct {
	Obj            format.ObjID
	Copied, Shared bool
	Old, New       hostfs.ID
}

// madeCopied and madeShared are set in the object number on the disk.
const (
	madeCopied = 1 << 63
	madeShared = 1 << 62
)

// AppendMade appends r as it stands in the file made to b.
func AppendMade(b []byte, r Made, v *format.Volumes) []byte {
	r.Old, r.New = v.Disk(r.Old), v.Disk(r.New)
	obj := uint64(r.Obj)
	if r.Copied {
		obj |= madeCopied
	}
	if r.Shared {
		obj |= madeShared
	}
	return format.AppendWords(b, obj, r.Old.Dev, r.Old.Ino, r.New.Dev, r.New.Ino)
}

// ReadMade reads the file "made" of a step directory; what is torn or damaged
// ends it. A missing file is empty.
func ReadMade(dirfd int, v *format.Volumes) ([]Made, error) {
	records, _, err := readWords(dirfd, "made", madeWords)
	var out []Made
	for _, w := range records {
		obj := w[0] &^ (madeCopied | madeShared)
		if obj <= uint64(format.RootObj) || obj > format.MaxObjects {
			break
		}
		out = append(out, Made{
			Obj: format.ObjID(obj), Copied: w[0]&madeCopied != 0, Shared: w[0]&madeShared != 0,
			Old: v.Live(hostfs.ID{Dev: w[1], Ino: w[2]}), New: v.Live(hostfs.ID{Dev: w[3], Ino: w[4]}),
		})
	}
	return out, err
}

// readWords reads a file of records of n words each. What is torn or damaged ends
// it; whole says that nothing was. A missing file is empty.
func readWords(dirfd int, name string, n int) (records [][]uint64, whole bool, err error) {
	size := format.WordsSize(n)
	b, err := hostfs.ReadSmall(dirfd, name, int64(size)*maxMade)
	if errors.Is(err, posix.ENOENT) {
		err = nil
	}
	for ; err == nil && len(b) >= size; b = b[size:] {
		w := format.Words(b, n)
		if w == nil {
			return records, false, nil
		}
		records = append(records, w)
	}
	return records, true, err
}

// remapRecord says: what had the number old when the records of birth were
// begun has the number new since the moment at. Moments are seqs.
type remapRecord struct {
	birth, at uint64
	old, new  hostfs.ID
}

func (r *remapRecord) append(b []byte, v *format.Volumes) []byte {
	from, to := v.Disk(r.old), v.Disk(r.new)
	return format.AppendWords(b, r.birth, r.at, from.Dev, from.Ino, to.Dev, to.Ino)
}

// Renumbering is the file "remap" of an undo directory. It may be used
// concurrently.
type Renumbering struct {
	dirfd   int
	volumes *format.Volumes
	log     *slog.Logger

	mu    sync.Mutex
	birth uint64
	r     *Renumber // of birth; nil: not read
}

// NewRenumbering uses the file in the undo directory behind dirfd.
func NewRenumbering(dirfd int, v *format.Volumes, log *slog.Logger) *Renumbering {
	return &Renumbering{dirfd: dirfd, volumes: v, log: log}
}

// read reads the file; a damaged record ends it.
func (x *Renumbering) read() ([]remapRecord, error) {
	records, whole, err := readWords(x.dirfd, "remap", remapWords)
	if !whole {
		x.log.Warn("remap file is damaged")
	}
	var out []remapRecord
	for _, w := range records {
		out = append(out, remapRecord{w[0], w[1], x.volumes.Live(hostfs.ID{Dev: w[2], Ino: w[3]}), x.volumes.Live(hostfs.ID{Dev: w[4], Ino: w[5]})})
	}
	return out, err
}

// Add tells the older steps about new numbers.
func (x *Renumbering) Add(birth, at uint64, made []Made) error {
	made = slices.DeleteFunc(slices.Clone(made), func(m Made) bool { return m.Shared })
	if len(made) == 0 {
		return nil
	}
	fd, err := hostfs.OpenOwn(x.dirfd, "remap", posix.O_RDWR|posix.O_CREAT)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	var buf []byte
	for _, m := range made {
		r := remapRecord{birth, at, m.Old, m.New}
		if m.Copied {
			r.birth = at
		}
		buf = r.append(buf, x.volumes)
	}
	if err := hostfs.PwriteFull(fd, buf, st.Size-st.Size%int64(format.WordsSize(remapWords))); err != nil {
		return fmt.Errorf("note new inode numbers: %w", err)
	}
	x.mu.Lock()
	x.r = nil
	x.mu.Unlock()
	return nil
}

// Renumber tells the present inode numbers of records begun at one moment.
type Renumber struct {
	entries []remapRecord
	byOld   map[hostfs.ID][]int
}

// newRenumber takes what happened after the moment birth.
func newRenumber(all []remapRecord, birth uint64) *Renumber {
	r := &Renumber{byOld: map[hostfs.ID][]int{}}
	for _, e := range all {
		if e.birth > birth {
			r.byOld[e.old] = append(r.byOld[e.old], len(r.entries))
			r.entries = append(r.entries, e)
		}
	}
	return r
}

// Now returns the present number of what had the number id at birth. An entry
// speaks of what had its old number when the records were begun that freed it;
// the last one that does is right.
func (r *Renumber) Now(id hostfs.ID) hostfs.ID {
	todo := r.byOld[id]
	if len(todo) == 0 {
		return id
	}
	type change struct {
		at uint64
		id hostfs.ID
	}
	history := []change{{0, id}}
	numberAt := func(at uint64) (id hostfs.ID) {
		for _, c := range history {
			if c.at <= at {
				id = c.id
			}
		}
		return id
	}
	todo = slices.Clone(todo)
	for len(todo) > 0 {
		i := todo[0]
		todo = todo[1:]
		e := r.entries[i]
		if numberAt(e.birth) != e.old {
			continue
		}
		history = append(history, change{e.at, e.new})
		for _, j := range r.byOld[e.new] {
			if j > i {
				todo = append(todo, j)
			}
		}
		slices.Sort(todo)
		todo = slices.Compact(todo)
	}
	return history[len(history)-1].id
}

// Since returns the renumber for records begun at birth.
func (x *Renumbering) Since(birth uint64) (*Renumber, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.r != nil && x.birth == birth {
		return x.r, nil
	}
	entries, err := x.read()
	if err != nil {
		return nil, err
	}
	x.birth, x.r = birth, newRenumber(entries, birth)
	return x.r, nil
}

// NowID is the number that an inode of the step seq has today.
func (x *Renumbering) NowID(seq uint64, id hostfs.ID) hostfs.ID {
	r, err := x.Since(seq)
	if err != nil {
		x.log.Warn("remap file", "err", err)
		return id
	}
	return r.Now(id)
}
