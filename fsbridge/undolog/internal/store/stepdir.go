package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// maxDepth bounds how deep adopted directories are looked through: each level
// holds a descriptor.
const maxDepth = 400

// StepDir is an open step directory: the open step's, a closed one's or one of
// the redo stack. Methods are safe for concurrent use.
type StepDir struct {
	FD int
	// Volumes translates the inodes in it; nil: they are as the kernel names them.
	Volumes *format.Volumes

	kept atomic.Int64 // bytes on the disk, see Keep

	mu     sync.Mutex
	blobs  int    // descriptor of blobs/, -1 until needed
	shard  shard  // blobs/<n>, the one that was needed last
	shards uint64 // one more than the highest that was made
	coming *comingShard
}

// NewStepDir takes over fd.
func NewStepDir(fd int) *StepDir { return &StepDir{FD: fd, blobs: -1, shard: shard{fd: -1}} }

// With has the inodes in the directory translated.
func (d *StepDir) With(v *format.Volumes) *StepDir {
	d.Volumes = v
	return d
}

// openStepDir opens the step directory name below dirfd. Others open it through [Dirs], so that
// no inode of a log is taken for the kernel's.
func openStepDir(dirfd int, name string) (*StepDir, error) {
	fd, err := hostfs.OpenDirAt(dirfd, name)
	if err != nil {
		return nil, err
	}
	return NewStepDir(fd), nil
}

func (d *StepDir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropComing()
	for _, fd := range []*int{&d.shard.fd, &d.blobs} {
		if *fd >= 0 {
			_ = hostfs.Close(*fd)
			*fd = -1
		}
	}
	return hostfs.Close(d.FD)
}

// BlobName is the name of the adopted inode of obj.
func BlobName(obj format.ObjID) string { return strconv.FormatUint(uint64(obj), 10) }

// ContentBlobName is the name of content blob n (n >= 1) of obj.
func ContentBlobName(obj format.ObjID, n uint32) string {
	return BlobName(obj) + "." + strconv.FormatUint(uint64(n), 10)
}

// OpenContentBlob opens content blob n of obj for reading.
func (d *StepDir) OpenContentBlob(obj format.ObjID, n uint32) (int, error) {
	fd := -1
	err := d.WithBlobDir(obj, false, func(dir int) (err error) {
		fd, err = hostfs.OpenRegular(dir, ContentBlobName(obj, n))
		return err
	})
	return fd, err
}

// fileReader reads a descriptor from an offset to an end.
type fileReader struct {
	fd       int
	off, end int64
}

func (r *fileReader) Read(p []byte) (int, error) {
	if r.off >= r.end {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.end-r.off)]
	n, err := hostfs.PreadFull(r.fd, p, r.off)
	r.off += int64(n)
	if err == nil && n == 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// contentReader reads the bytes of one content record: exactly Len of them,
// then io.EOF. Close it.
type contentReader struct {
	r     io.Reader
	left  int64
	close func()
}

// ReadContent opens the bytes of c, which was read from this directory's
// journal. A hole reads as zeros. Damage is an error wrapping [format.ErrDamaged], at
// the latest when the bytes have been read.
func (d *StepDir) ReadContent(c *format.Content) (*contentReader, error) {
	switch c.Enc {
	case format.EncHole:
		return &contentReader{r: zeros{}, left: c.Len}, nil
	case format.EncRaw, format.EncZstd:
		fd, err := hostfs.OpenRegular(d.FD, "journal")
		if err != nil {
			return nil, err
		}
		off, n := c.Inline()
		return newContentReader(fd, &fileReader{fd, off, off + n}, c.Enc == format.EncZstd, c.Len)
	}
	fd, err := d.OpenContentBlob(c.Obj, c.Blob)
	if err != nil {
		return nil, fmt.Errorf("%w: content of object %d: %w", format.ErrDamaged, c.Obj, err)
	}
	return newContentReader(fd, &fileReader{fd, c.Off, c.Off + c.Len}, false, c.Len)
}

func newContentReader(fd int, r io.Reader, compressed bool, n int64) (*contentReader, error) {
	cr := &contentReader{r: r, left: n, close: func() { _ = hostfs.Close(fd) }}
	if compressed {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			cr.close()
			return nil, err
		}
		cr.r, cr.close = z, func() { z.Close(); _ = hostfs.Close(fd) }
	}
	return cr, nil
}

func (c *contentReader) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), c.left)]
	n, err := c.r.Read(p)
	c.left -= int64(n)
	if c.left == 0 {
		return n, nil
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return n, fmt.Errorf("%w: content: %w", format.ErrDamaged, err)
	}
	return n, nil
}

func (c *contentReader) Close() {
	if c.close != nil {
		c.close()
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// WriteContent puts the bytes of c at their place in the file behind fd, which
// is open for writing. Holes become holes where the file system can.
func (d *StepDir) WriteContent(c *format.Content, fd int) error {
	switch c.Enc {
	case format.EncHole:
		return hostfs.Zero(fd, c.Off, c.Off+c.Len)
	case format.EncClone:
		return d.writeClone(c, fd)
	}
	r, err := d.ReadContent(c)
	if err != nil {
		return err
	}
	defer r.Close()
	buf := make([]byte, min(c.Len, 256<<10))
	for off := c.Off; off < c.Off+c.Len; {
		n, err := io.ReadFull(r, buf[:min(int64(len(buf)), c.Off+c.Len-off)])
		if n > 0 {
			if werr := hostfs.PwriteFull(fd, buf[:n], off); werr != nil {
				return werr
			}
			off += int64(n)
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		if err != nil && n == 0 {
			return err
		}
	}
	return nil
}

// SameContent tells whether the file behind fd has the bytes of c at their place.
func (d *StepDir) SameContent(c *format.Content, fd int) (bool, error) {
	r, err := d.ReadContent(c)
	if err != nil {
		return false, err
	}
	defer r.Close()
	want, have := make([]byte, min(c.Len, 256<<10)), make([]byte, min(c.Len, 256<<10))
	for off := c.Off; off < c.Off+c.Len; {
		n := int(min(int64(len(want)), c.Off+c.Len-off))
		if _, err := io.ReadFull(r, want[:n]); err != nil {
			return false, err
		}
		if m, err := hostfs.PreadFull(fd, have[:n], off); err != nil || m < n || !bytes.Equal(want[:n], have[:n]) {
			return false, err
		}
		off += int64(n)
	}
	return true, nil
}

// writeClone is WriteContent for what has a blob.
func (d *StepDir) writeClone(c *format.Content, fd int) error {
	blob, err := d.openContent(c)
	if err != nil {
		return fmt.Errorf("%w: content of object %d: %w", format.ErrDamaged, c.Obj, err)
	}
	defer hostfs.Close(blob)
	return hostfs.CopyContent(fd, blob, c.Off, c.Off+c.Len)
}

// FindBlob looks for the retained inode id and returns its object, or journal.NoObj.
func (d *StepDir) FindBlob(id hostfs.ID) (format.ObjID, error) {
	blobs, err := hostfs.OpenDirAt(d.FD, "blobs")
	if errors.Is(err, posix.ENOENT) {
		return format.NoObj, nil
	}
	if err != nil {
		return format.NoObj, err
	}
	defer hostfs.Close(blobs)
	shards, err := hostfs.ReadDir(blobs)
	if err != nil {
		return format.NoObj, err
	}
	for _, deep := range []bool{false, true} {
		for _, shard := range shards {
			obj, err := findInShard(blobs, shard.Name, id, deep)
			if err != nil || obj != format.NoObj {
				return obj, err
			}
		}
	}
	return format.NoObj, nil
}

// findInShard looks for id among the blobs of a shard or, if deep, inside those
// that are directories.
func findInShard(blobs int, shard string, id hostfs.ID, deep bool) (format.ObjID, error) {
	fd, err := hostfs.OpenDirAt(blobs, shard)
	if err != nil {
		return format.NoObj, err
	}
	defer hostfs.Close(fd)
	entries, err := hostfs.ReadDir(fd)
	if err != nil {
		return format.NoObj, err
	}
	for _, e := range entries {
		n, err := strconv.ParseUint(e.Name, 10, 32)
		if err != nil || n == 0 || n > format.MaxObjects {
			continue
		}
		if deep {
			if path, _, err := FindBelow(fd, e.Name, id); err == nil && path != "" {
				return format.ObjID(n), nil
			}
			continue
		}
		if e.Ino != id.Ino {
			continue
		}
		if st, err := hostfs.StatAt(fd, e.Name); err == nil && st.ID == id {
			return format.ObjID(n), nil
		}
	}
	return format.NoObj, nil
}

// FindBelow looks for the inode id inside name, if that is a directory. It
// returns its path from there, or nothing.
func FindBelow(dirfd int, name string, id hostfs.ID) (found string, st hostfs.Stat, err error) {
	fd, err := hostfs.OpenDirAt(dirfd, name)
	if errors.Is(err, posix.ENOTDIR) || errors.Is(err, posix.ELOOP) {
		return "", st, nil
	}
	if err != nil {
		return "", st, err
	}
	defer hostfs.Close(fd)
	err = hostfs.Walk(fd, maxDepth, func(fd int, path string, d *hostfs.Dirent) error {
		if d.Ino != id.Ino {
			return nil
		}
		now, err := hostfs.StatAt(fd, d.Name)
		if err != nil || now.ID != id {
			return nil
		}
		found, st = path, now
		return fs.SkipAll
	})
	return found, st, err
}
