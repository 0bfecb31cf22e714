package undolog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/pack"
)

// compressEverything as a budget makes compress pack the newest step, too.
const compressEverything = -2

// compress packs adopted files of the oldest steps until no more than budget
// bytes are left as they are; a negative budget (no limit) packs nothing. The
// newest step stays, for an undo at once.
func (l *Log) compress(ctx context.Context, budget int64) (packed []StepID, err error) {
	steps := l.stepEntries()
	var raw int64
	for _, e := range steps {
		if !e.Compressed {
			raw += e.StoredBytes
		}
	}
	all := budget == compressEverything
	if !all && (budget < 0 || raw <= budget) {
		return nil, nil
	}
	pinned, err := l.pinnedBlobs(steps)
	if err != nil {
		return nil, err
	}
	for i, e := range steps {
		if !all && (raw <= budget || i == len(steps)-1) {
			break
		}
		if e.Compressed {
			continue
		}
		done, err := l.compressStep(ctx, e, pinned[e.Seq])
		if err != nil {
			return packed, fmt.Errorf("step %d: %w", e.StepID, err)
		}
		raw -= e.StoredBytes
		if done {
			packed = append(packed, e.StepID)
		}
	}
	return packed, nil
}

// pinnedBlobs finds the adopted inodes that a later step changed (through a
// handle that was open): its records put bytes back into that very inode.
func (l *Log) pinnedBlobs(steps []*stepEntry) (map[uint64]map[journal.ObjID]bool, error) {
	pinned := map[uint64]map[journal.ObjID]bool{}
	add := func(e *stepEntry, open func(*stepEntry) (*stepDir, error)) error {
		dir, err := open(e)
		if err != nil {
			return err
		}
		defer dir.close()
		return dir.eachRetainedOrigin(func(seq uint64, obj journal.ObjID) {
			if pinned[seq] == nil {
				pinned[seq] = map[journal.ObjID]bool{}
			}
			pinned[seq][obj] = true
		})
	}
	for _, e := range steps {
		if err := add(e, l.openStepEntry); err != nil && e.Damaged == "" {
			return nil, err
		}
	}
	for _, e := range l.redoEntries() {
		if err := add(e, l.openRedoEntry); err != nil && e.Damaged == "" {
			return nil, err
		}
	}
	return pinned, nil
}

func (d *stepDir) eachRetainedOrigin(f func(seq uint64, obj journal.ObjID)) error {
	fd, err := hostfs.OpenRegular(d.fd, "journal")
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	err = journal.Scan(fd, func(t journal.Type, p []byte, _ int64) error {
		if t != journal.TypeObject {
			return nil
		}
		o, err := journal.DecodeObject(p)
		if err == nil && o.RetainedSeq != 0 {
			f(o.RetainedSeq, o.RetainedObj)
		}
		return err
	})
	var torn *journal.TornError
	if errors.As(err, &torn) {
		return nil
	}
	return err
}

// compressStep packs the adopted inodes of one step and then removes them. It
// may be killed anywhere: the pack appears complete, and an inode that is still
// there is as good as the one in the pack.
func (l *Log) compressStep(ctx context.Context, e *stepEntry, pinned map[journal.ObjID]bool) (packed bool, err error) {
	dir, err := l.openStepEntry(e)
	if err != nil {
		return false, err
	}
	defer dir.close()
	blobs, others, err := adoptedBlobs(dir.fd)
	if err != nil {
		return false, err
	}
	p, err := pack.Open(dir.fd)
	if err != nil {
		return false, err
	}
	if p == nil && len(blobs) > 0 {
		if p, err = l.writePack(ctx, dir.fd, blobs, pinned); err != nil {
			return false, err
		}
	}
	if p != nil {
		defer p.Close()
		if err := l.removePacked(ctx, dir.fd, p, blobs, others); err != nil {
			return false, err
		}
	}
	return p != nil, l.noteCompressed(e, dir.fd)
}

// pack.writePack writes the pack under a temporary name and renames it. It returns
// nil if nothing could be packed.
func (l *Log) writePack(ctx context.Context, dirfd int, blobs []adoptedBlob, pinned map[journal.ObjID]bool) (*pack.Reader, error) {
	const tmp = "pack.new"
	fd, err := hostfs.OpenAt(dirfd, tmp, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	shared, err := readMade(dirfd)
	any := false
	if err == nil {
		blobs = withoutShared(blobs, shared)
		any, err = l.fillPack(ctx, fd, dirfd, blobs, pinned)
	}
	if err == nil && l.o.Durability == DurabilityPower {
		err = hostfs.SyncFD(fd)
	}
	if err = errors.Join(err, hostfs.Close(fd)); err == nil && any {
		if err = fault.Point("pack.rename"); err == nil {
			err = hostfs.RenameAt(dirfd, tmp, dirfd, "pack", 0)
		}
	}
	if err != nil || !any {
		_ = hostfs.UnlinkAt(dirfd, tmp)
		return nil, err
	}
	return pack.Open(dirfd)
}

// withoutShared leaves out the copies of files that have other names in the folder:
// an undo makes them names of the same inode again, and goes by their numbers.
func withoutShared(blobs []adoptedBlob, made []madeRecord) []adoptedBlob {
	shared := map[journal.ObjID]bool{}
	for _, m := range made {
		if m.shared {
			shared[m.obj] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(blobs), func(b adoptedBlob) bool {
		return shared[b.obj] || b.stat.IsDir() && shared[otherObj]
	})
}

func (l *Log) fillPack(ctx context.Context, fd, dirfd int, blobs []adoptedBlob, pinned map[journal.ObjID]bool) (any bool, err error) {
	w, err := pack.NewWriter(fd)
	if err != nil {
		return false, err
	}
	defer w.Close()
	base, err := hostfs.OpenDirPathAt(dirfd, "blobs")
	if err != nil {
		return false, err
	}
	defer hostfs.Close(base)
	shards := shardDirs{base: base}
	defer shards.close()
	for _, b := range blobs {
		if pinned[b.obj] {
			continue
		}
		if err := fault.Point("pack.add"); err != nil {
			return false, err
		}
		sub, err := shards.of(b.obj)
		if err == nil {
			err = w.AddRoot(ctx, b.obj, sub, blobName(b.obj), l.host.retained.inUse)
		}
		if errors.Is(err, pack.ErrKeepRaw) {
			continue
		}
		if err != nil {
			return false, err
		}
		any = true
	}
	if !any {
		return false, nil
	}
	return true, w.Finish()
}

// shardDirs opens the directories below blobs/, one at a time.
type shardDirs struct {
	base, fd int
	shard    uint64
	open     bool
}

func (s *shardDirs) of(obj journal.ObjID) (int, error) {
	shard := shardOf(obj)
	if s.open && s.shard == shard {
		return s.fd, nil
	}
	s.close()
	fd, err := hostfs.OpenDirPathAt(s.base, shardName(obj))
	if err != nil {
		return -1, err
	}
	s.fd, s.shard, s.open = fd, shard, true
	return fd, nil
}

func (s *shardDirs) close() {
	if s.open {
		_ = hostfs.Close(s.fd)
		s.open = false
	}
}

// removePacked removes the adopted inodes that the pack holds: all of blobs/
// by one rename if nothing else is in it, else one by one.
func (l *Log) removePacked(ctx context.Context, dirfd int, p *pack.Reader, blobs []adoptedBlob, others int) error {
	if err := fault.Point("pack.remove"); err != nil {
		return err
	}
	base, err := hostfs.OpenDirPathAt(dirfd, "blobs")
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer hostfs.Close(base)
	raw := slices.ContainsFunc(blobs, func(b adoptedBlob) bool { return !p.Has(b.obj) })
	if !raw && others == 0 {
		return l.discardDir(dirfd, "blobs")
	}
	shards := shardDirs{base: base}
	defer shards.close()
	for _, b := range blobs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !p.Has(b.obj) {
			continue
		}
		sub, err := shards.of(b.obj)
		if err == nil {
			err = l.removeBlob(sub, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeBlob removes one adopted inode; of a directory never a part only.
func (l *Log) removeBlob(sub int, b adoptedBlob) error {
	if b.stat.IsDir() {
		// One that its owner may not write to cannot be moved; the records have its mode.
		_, _, err := hostfs.AllowAt(sub, blobName(b.obj), 0o700, func() error { return l.discardDir(sub, blobName(b.obj)) })
		return err
	}
	if err := fault.Point("pack.unlink"); err != nil {
		return err
	}
	return l.held.change(b.stat.ID, -1, func() error { return hostfs.UnlinkAt(sub, blobName(b.obj)) })
}

// noteCompressed writes the new size into the summary and the list.
func (l *Log) noteCompressed(e *stepEntry, dirfd int) error {
	n, err := diskUsage(dirfd)
	if err != nil {
		return err
	}
	now := *e
	now.Compressed, now.StoredBytes = true, n
	if e.Damaged == "" {
		if err := writeSummary(dirfd, now.Entry); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps = slices.Clone(l.steps)
	if i := slices.Index(l.steps, e); i >= 0 {
		l.steps[i] = &now
	}
	return nil
}

// diskUsage sums what the files below dirfd occupy, in bytes. What an adopted
// directory denies us is left out.
func diskUsage(dirfd int) (total int64, err error) {
	err = hostfs.Walk(dirfd, maxCopyDepth, func(fd int, _ string, d *hostfs.Dirent) error {
		if st, err := hostfs.StatAt(fd, d.Name); err == nil {
			total += st.Blocks * 512
		}
		return nil
	})
	return total, err
}
