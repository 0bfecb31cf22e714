package undolog

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/wire"
)

// A file that is made anew has a new inode number. Two files tell so: "made"
// in a step directory, for that directory's own objects, and "remap" in the
// undo directory, for the steps before.

const (
	madeWords  = 5
	remapWords = 6
	// madeSize is the length of a record of made, in bytes.
	madeSize = 8*madeWords + wire.HeaderSize
	// maxMade bounds what is read of either file, in records.
	maxMade = 1 << 22
)

// madeRecord says that obj, which had the number old, was made anew as new.
// It was freed before, or (copied) it was there until now, or (shared) it is
// there still by another name and only a copy of it is new.
type madeRecord struct {
	obj            journal.ObjID
	copied, shared bool
	old, new       hostfs.ID
}

// madeCopied and madeShared are set in the object number on the disk.
const (
	madeCopied = 1 << 63
	madeShared = 1 << 62
)

func appendMade(b []byte, r madeRecord) []byte {
	obj := uint64(r.obj)
	if r.copied {
		obj |= madeCopied
	}
	if r.shared {
		obj |= madeShared
	}
	return wire.AppendWords(b, obj, r.old.Dev, r.old.Ino, r.new.Dev, r.new.Ino)
}

// readMade reads the file "made" of a step directory; what is torn or damaged
// ends it. A missing file is empty.
func readMade(dirfd int) ([]madeRecord, error) {
	records, _, err := readWords(dirfd, "made", madeWords)
	var out []madeRecord
	for _, w := range records {
		obj := w[0] &^ (madeCopied | madeShared)
		if obj <= uint64(journal.RootObj) || obj > journal.MaxObjects {
			break
		}
		out = append(out, madeRecord{
			obj: journal.ObjID(obj), copied: w[0]&madeCopied != 0, shared: w[0]&madeShared != 0,
			old: hostfs.ID{Dev: w[1], Ino: w[2]}, new: hostfs.ID{Dev: w[3], Ino: w[4]},
		})
	}
	return out, err
}

// readWords reads a file of records of n words each. What is torn or damaged ends
// it; whole says that nothing was. A missing file is empty.
func readWords(dirfd int, name string, n int) (records [][]uint64, whole bool, err error) {
	size := wire.WordsSize(n)
	b, err := hostfs.ReadSmall(dirfd, name, int64(size)*maxMade)
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	for ; err == nil && len(b) >= size; b = b[size:] {
		w := wire.Words(b, n)
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

func (r *remapRecord) append(b []byte) []byte {
	return wire.AppendWords(b, r.birth, r.at, r.old.Dev, r.old.Ino, r.new.Dev, r.new.Ino)
}

// readRemap reads the file "remap"; a damaged record ends it.
func (l *Log) readRemap() ([]remapRecord, error) {
	records, whole, err := readWords(l.dir.FD(), "remap", remapWords)
	if !whole {
		l.log.Warn("remap file is damaged")
	}
	var out []remapRecord
	for _, w := range records {
		out = append(out, remapRecord{w[0], w[1], hostfs.ID{Dev: w[2], Ino: w[3]}, hostfs.ID{Dev: w[4], Ino: w[5]}})
	}
	return out, err
}

// appendRemap tells the older steps about new numbers.
func (l *Log) appendRemap(birth, at uint64, made []madeRecord) error {
	made = slices.DeleteFunc(slices.Clone(made), func(m madeRecord) bool { return m.shared })
	if len(made) == 0 {
		return nil
	}
	fd, err := hostfs.OpenAt(l.dir.FD(), "remap", unix.O_RDWR|unix.O_CREAT|unix.O_NONBLOCK, 0o600)
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
		r := remapRecord{birth, at, m.old, m.new}
		if m.copied {
			r.birth = at
		}
		buf = r.append(buf)
	}
	if err := hostfs.PwriteFull(fd, buf, st.Size-st.Size%int64(wire.WordsSize(remapWords))); err != nil {
		return fmt.Errorf("note new inode numbers: %w", err)
	}
	l.renumbered.mu.Lock()
	l.renumbered.r = nil
	l.renumbered.mu.Unlock()
	return nil
}

// renumber tells the present inode numbers of records begun at one moment.
type renumber struct {
	entries []remapRecord
	byOld   map[hostfs.ID][]int
}

// newRenumber takes what happened after the moment birth.
func newRenumber(all []remapRecord, birth uint64) *renumber {
	r := &renumber{byOld: map[hostfs.ID][]int{}}
	for _, e := range all {
		if e.birth > birth {
			r.byOld[e.old] = append(r.byOld[e.old], len(r.entries))
			r.entries = append(r.entries, e)
		}
	}
	return r
}

// now returns the present number of what had the number id at birth. An entry
// speaks of what had its old number when the records were begun that freed it;
// the last one that does is right.
func (r *renumber) now(id hostfs.ID) hostfs.ID {
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

// renumberCache keeps the renumber of one moment.
type renumberCache struct {
	mu    sync.Mutex
	birth uint64
	r     *renumber
}

// renumberFor returns the renumber for records begun at birth.
func (l *Log) renumberFor(birth uint64) (*renumber, error) {
	l.renumbered.mu.Lock()
	defer l.renumbered.mu.Unlock()
	if c := &l.renumbered; c.r != nil && c.birth == birth {
		return c.r, nil
	}
	entries, err := l.readRemap()
	if err != nil {
		return nil, err
	}
	l.renumbered.birth, l.renumbered.r = birth, newRenumber(entries, birth)
	return l.renumbered.r, nil
}

// nowID is the number that an inode of the step seq has today.
func (l *Log) nowID(seq uint64, id hostfs.ID) hostfs.ID {
	r, err := l.renumberFor(seq)
	if err != nil {
		l.log.Warn("remap file", "err", err)
		return id
	}
	return r.now(id)
}
