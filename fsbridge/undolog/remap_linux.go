package undolog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// A file that is made anew has a new inode number. Two files tell so: "made"
// in a step directory, for that directory's own objects, and "remap" in the
// undo directory, for the steps before.

const (
	madeSize  = 48
	remapSize = 56
	// maxMade bounds what is read of either file, in records.
	maxMade = 1 << 22
)

// madeRecord says that obj, which had the number old, was made anew as new.
// It was freed before, or (copied) it was there until now, or (shared) it is
// there still by another name and only a copy of it is new.
type madeRecord struct {
	obj            objID
	copied, shared bool
	old, new       hostfs.ID
}

// madeCopied and madeShared are set in the object number on the disk.
const (
	madeCopied = 1 << 63
	madeShared = 1 << 62
)

func appendMade(b []byte, r madeRecord) []byte {
	start := len(b)
	le := binary.LittleEndian
	obj := uint64(r.obj)
	if r.copied {
		obj |= madeCopied
	}
	if r.shared {
		obj |= madeShared
	}
	b = le.AppendUint64(b, obj)
	for _, v := range []uint64{r.old.Dev, r.old.Ino, r.new.Dev, r.new.Ino} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
	return append(b, 0, 0, 0, 0)
}

// readMade reads the file "made" of a step directory; what is torn or damaged
// ends it. A missing file is empty.
func readMade(dirfd int) ([]madeRecord, error) {
	b, err := hostfs.ReadSmall(dirfd, "made", madeSize*maxMade)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []madeRecord
	le := binary.LittleEndian
	for ; len(b) >= madeSize; b = b[madeSize:] {
		obj := le.Uint64(b) &^ (madeCopied | madeShared)
		if le.Uint32(b[40:]) != crc32.Checksum(b[:40], castagnoli) || obj <= uint64(rootObj) || obj > maxObjects {
			break
		}
		out = append(out, madeRecord{
			obj: objID(obj), copied: le.Uint64(b)&madeCopied != 0, shared: le.Uint64(b)&madeShared != 0,
			old: hostfs.ID{Dev: le.Uint64(b[8:]), Ino: le.Uint64(b[16:])},
			new: hostfs.ID{Dev: le.Uint64(b[24:]), Ino: le.Uint64(b[32:])},
		})
	}
	return out, nil
}

// remapRecord says: what had the number old when the records of birth were
// begun has the number new since the moment at. Moments are seqs.
type remapRecord struct {
	birth, at uint64
	old, new  hostfs.ID
}

func (r *remapRecord) append(b []byte) []byte {
	start := len(b)
	le := binary.LittleEndian
	for _, v := range []uint64{r.birth, r.at, r.old.Dev, r.old.Ino, r.new.Dev, r.new.Ino} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
	return append(b, 0, 0, 0, 0)
}

// readRemap reads the file "remap"; a damaged record ends it.
func (l *Log) readRemap() ([]remapRecord, error) {
	b, err := hostfs.ReadSmall(l.dir.FD(), "remap", remapSize*maxMade)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []remapRecord
	le := binary.LittleEndian
	for ; len(b) >= remapSize; b = b[remapSize:] {
		if le.Uint32(b[48:]) != crc32.Checksum(b[:48], castagnoli) {
			l.log.Warn("remap file is damaged")
			break
		}
		out = append(out, remapRecord{le.Uint64(b), le.Uint64(b[8:]),
			hostfs.ID{Dev: le.Uint64(b[16:]), Ino: le.Uint64(b[24:])},
			hostfs.ID{Dev: le.Uint64(b[32:]), Ino: le.Uint64(b[40:])}})
	}
	return out, nil
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
	if err := hostfs.PwriteFull(fd, buf, st.Size-st.Size%remapSize); err != nil {
		return fmt.Errorf("note new inode numbers: %w", err)
	}
	l.renumbered.mu.Lock()
	l.renumbered.r = nil
	l.renumbered.mu.Unlock()
	return nil
}

// born is the moment to which a journal's inode numbers belong.
func (r *stepRecord) born() uint64 { return max(r.Tick, r.Seq) }

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
