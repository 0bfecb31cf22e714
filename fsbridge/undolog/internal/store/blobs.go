package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// Blob is one entry below blobs/ that is an adopted inode.
type Blob struct {
	Obj  format.ObjID
	Stat hostfs.Stat
}

// AdoptedBlobs lists the adopted inodes of a step directory by number. Names
// that are not ours are left out, content blobs as well: others counts them.
func AdoptedBlobs(dirfd int) (blobs []Blob, others int, err error) {
	others, err = EachAdopted(dirfd, func(b *Blob) { blobs = append(blobs, *b) })
	slices.SortFunc(blobs, func(a, b Blob) int { return int(a.Obj) - int(b.Obj) })
	return blobs, others, err
}

// EachAdopted is [AdoptedBlobs] for whoever need not have them all at once: it calls f with each, in no order. f keeps nothing of
// what it is given.
func EachAdopted(dirfd int, f func(b *Blob)) (others int, err error) {
	top, err := hostfs.OpenDirPathAt(dirfd, "blobs")
	if errors.Is(err, posix.ENOENT) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer hostfs.Close(top)
	err = hostfs.Walk(top, 1, func(fd int, path string, d *hostfs.Dirent) error {
		shard, name, inside := strings.Cut(path, "/")
		n, ok := ParseShard(shard)
		if !ok || !inside {
			if !ok {
				others++
				return fs.SkipDir
			}
			return nil
		}
		obj, ok := ParseBlob(name)
		if !ok || ShardOf(obj) != n {
			others++
			return nil
		}
		st, err := hostfs.StatAt(fd, name)
		if err == nil {
			f(&Blob{obj, st})
		}
		return err
	})
	return others, err
}

// ParseBlob is the inverse of BlobName and refuses everything else.
func ParseBlob(name string) (obj format.ObjID, ok bool) {
	n, err := strconv.ParseUint(name, 10, 32)
	obj = format.ObjID(n)
	return obj, err == nil && obj != format.NoObj && n <= format.MaxObjects && BlobName(obj) == name
}

// ParseShard is the inverse of NameOfShard and refuses everything else.
func ParseShard(name string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(name, 10, 32)
	return n, err == nil && NameOfShard(n) == name
}

// VerifyContents looks at the content blobs that the records name: what is
// missing shall be known before an undo changes anything. What is inline has
// the sums of the journal.
//
// Nobody writes to a content blob once its record is in the journal, so that one that is newer than the
// journal was changed by somebody else.
// bad are the objects with damaged contents; err says what is wrong with one.
func (d *StepDir) VerifyContents(rec *format.RecordSet) (bad map[format.ObjID]bool, err error) {
	written, err := hostfs.StatAt(d.FD, "journal")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", format.ErrDamaged, err)
	}
	bad = map[format.ObjID]bool{}
	for _, list := range rec.Contents {
		for i := range list {
			if verr := d.verifyContent(&list[i], written.Mtime); verr != nil {
				bad[list[i].Obj] = true
				err = fmt.Errorf("%w: content of object %d: %w", format.ErrDamaged, list[i].Obj, verr)
			}
		}
	}
	return bad, err
}

func (d *StepDir) verifyContent(c *format.Content, written int64) error {
	if c.Enc != format.EncClone {
		return nil
	}
	fd, err := d.openContent(c)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	if err == nil && st.Mtime > written {
		err = errors.New("it was written to since")
	}
	return err
}

// openContent opens the content blob that c is in, if it is long enough.
func (d *StepDir) openContent(c *format.Content) (int, error) {
	fd, err := d.OpenContentBlob(c.Obj, c.Blob)
	if err != nil {
		return -1, err
	}
	st, err := hostfs.StatFD(fd)
	if err == nil && st.Size < c.Off+c.Len {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		_ = hostfs.Close(fd)
		return -1, err
	}
	return fd, nil
}

// EachRetainedOrigin calls f for each object that was in the blob of an older step.
func (d *StepDir) EachRetainedOrigin(f func(seq uint64, obj format.ObjID)) error {
	fd, err := hostfs.OpenRegular(d.FD, "journal")
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	err = format.ScanJournal(fd, func(t format.RecordType, p []byte, _ int64) error {
		if t != format.TypeObject {
			return nil
		}
		o, err := format.DecodeObject(p)
		if err == nil && o.RetainedSeq != 0 {
			f(o.RetainedSeq, o.RetainedObj)
		}
		return err
	})
	var torn *format.TornError
	if errors.As(err, &torn) {
		return nil
	}
	return err
}
