package undolog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
)

// adoptedBlob is one entry below blobs/ that is an adopted inode.
type adoptedBlob struct {
	obj  journal.ObjID
	stat hostfs.Stat
}

// adoptedBlobs lists the adopted inodes of a step directory by number. Names
// that are not ours are left out, content blobs as well: others counts them.
func adoptedBlobs(dirfd int) (blobs []adoptedBlob, others int, err error) {
	top, err := hostfs.OpenDirPathAt(dirfd, "blobs")
	if errors.Is(err, unix.ENOENT) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer hostfs.Close(top)
	err = hostfs.Walk(top, 1, func(fd int, path string, d *hostfs.Dirent) error {
		shard, name, inside := strings.Cut(path, "/")
		n, ok := parseShard(shard)
		if !ok || !inside {
			if !ok {
				others++
				return fs.SkipDir
			}
			return nil
		}
		obj, ok := parseBlob(name)
		if !ok || shardOf(obj) != n {
			others++
			return nil
		}
		st, err := hostfs.StatAt(fd, name)
		if err == nil {
			blobs = append(blobs, adoptedBlob{obj, st})
		}
		return err
	})
	slices.SortFunc(blobs, func(a, b adoptedBlob) int { return int(a.obj) - int(b.obj) })
	return blobs, others, err
}

// parseBlob is the inverse of blobName and refuses everything else.
func parseBlob(name string) (obj journal.ObjID, ok bool) {
	n, err := strconv.ParseUint(name, 10, 32)
	obj = journal.ObjID(n)
	return obj, err == nil && obj != journal.NoObj && n <= journal.MaxObjects && blobName(obj) == name
}

// parseShard is the inverse of nameOfShard and refuses everything else.
func parseShard(name string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(name, 10, 32)
	return n, err == nil && nameOfShard(n) == name
}

// verifyContents looks at the content blobs that the records name: what is
// missing shall be known before an undo changes anything. What is inline has
// the sums of the journal.
func (d *stepDir) verifyContents(rec *journal.Set) error {
	for _, list := range rec.Contents {
		for i := range list {
			if err := d.verifyContent(&list[i]); err != nil {
				return fmt.Errorf("%w: content of object %d: %w", ErrDamaged, list[i].Obj, err)
			}
		}
	}
	return nil
}

func (d *stepDir) verifyContent(c *journal.Content) error {
	if c.Enc != journal.EncClone {
		return nil
	}
	fd, err := d.openContentBlob(c.Obj, c.Blob)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	if err == nil && st.Size < c.Off+c.Len {
		err = io.ErrUnexpectedEOF
	}
	return err
}
