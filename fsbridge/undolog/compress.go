package undolog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/apply"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// compressEverything as a budget makes compress pack the newest step, too.
const compressEverything = -2

// compress packs adopted files of the oldest steps until no more than budget
// bytes are left as they are; a negative budget (no limit) packs nothing. The
// newest step stays, for an undo at once. tell, if it is not nil, is told of the bytes that
// were read, and of those that there are.
func (l *Log) compress(ctx context.Context, budget int64, tell Progress) (packed []StepID, err error) {
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
	work := store.PackWork{Tell: tell, Total: raw - max(budget, 0)}
	for i, e := range steps {
		if !all && (raw <= budget || i == len(steps)-1) {
			break
		}
		if e.Compressed {
			continue
		}
		done, err := l.compressStep(ctx, e, pinned[e.Seq], work.Read)
		if err != nil {
			return packed, fmt.Errorf("step %d: %w", e.StepID, err)
		}
		raw -= e.StoredBytes
		work.Next(e.StoredBytes)
		if done {
			packed = append(packed, e.StepID)
		}
	}
	return packed, nil
}

// pinnedBlobs finds the adopted inodes that a later step changed (through a
// handle that was open): its records put bytes back into that very inode.
func (l *Log) pinnedBlobs(steps []*stepEntry) (map[uint64]map[format.ObjID]bool, error) {
	pinned := map[uint64]map[format.ObjID]bool{}
	add := func(e *stepEntry, open func(*stepEntry) (*store.StepDir, error)) error {
		dir, err := open(e)
		if err != nil {
			return err
		}
		defer dir.Close()
		return dir.EachRetainedOrigin(func(seq uint64, obj format.ObjID) {
			if pinned[seq] == nil {
				pinned[seq] = map[format.ObjID]bool{}
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

// compressStep packs the adopted inodes of one step and then removes them. It
// may be killed anywhere: the pack appears complete, and an inode that is still
// there is as good as the one in the pack.
func (l *Log) compressStep(ctx context.Context, e *stepEntry, pinned map[format.ObjID]bool, read func(int64)) (packed bool, err error) {
	dir, err := l.openStepEntry(e)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	blobs, others, err := store.AdoptedBlobs(dir.FD)
	if err != nil {
		return false, err
	}
	p, err := l.openPack(dir.FD)
	if err != nil {
		return false, err
	}
	if p == nil && len(blobs) > 0 {
		if p, err = l.writePack(ctx, dir.FD, blobs, pinned, read); err != nil {
			return false, err
		}
	}
	if p != nil {
		defer p.Close()
		if err := l.removePacked(ctx, dir.FD, p, blobs, others); err != nil {
			return false, err
		}
	}
	return p != nil, l.noteCompressed(e, dir.FD)
}

// pack.writePack writes the pack under a temporary name and renames it. It returns
// nil if nothing could be packed.
func (l *Log) writePack(ctx context.Context, dirfd int, blobs []store.Blob, pinned map[format.ObjID]bool, read func(int64)) (*store.PackReader, error) {
	const tmp = "pack.new"
	fd, err := hostfs.MakeNew(dirfd, tmp)
	if err != nil {
		return nil, err
	}
	shared, err := store.ReadMade(dirfd, l.volumes)
	any := false
	if err == nil {
		blobs = withoutShared(blobs, shared)
		any, err = l.fillPack(ctx, fd, dirfd, blobs, pinned, read)
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
	return l.openPack(dirfd)
}

// openPack opens the pack of a step directory; nil if it has none.
func (l *Log) openPack(dirfd int) (*store.PackReader, error) {
	p, err := store.OpenPack(dirfd)
	if err != nil || p == nil {
		return nil, err
	}
	return p.Live(l.volumes), nil
}

// withoutShared leaves out the copies of files that have other names in the folder:
// an undo makes them names of the same inode again, and goes by their numbers.
func withoutShared(blobs []store.Blob, made []store.Made) []store.Blob {
	shared := map[format.ObjID]bool{}
	for _, m := range made {
		if m.Shared {
			shared[m.Obj] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(blobs), func(b store.Blob) bool {
		return shared[b.Obj] || b.Stat.IsDir() && shared[apply.OtherObj]
	})
}

func (l *Log) fillPack(ctx context.Context, fd, dirfd int, blobs []store.Blob, pinned map[format.ObjID]bool, read func(int64)) (any bool, err error) {
	w, err := store.NewPackWriter(fd)
	if err != nil {
		return false, err
	}
	defer w.Close()
	w.Read, w.Volumes = read, l.volumes
	base, err := hostfs.OpenDirPathAt(dirfd, "blobs")
	if err != nil {
		return false, err
	}
	defer hostfs.Close(base)
	shards := store.ShardDirs{Base: base}
	defer shards.Close()
	for _, b := range blobs {
		if pinned[b.Obj] {
			continue
		}
		if err := fault.Point("pack.add"); err != nil {
			return false, err
		}
		sub, err := shards.Of(b.Obj)
		if err == nil {
			err = w.AddRoot(ctx, b.Obj, sub, store.BlobName(b.Obj), l.host.Retained.InUse)
		}
		if errors.Is(err, store.ErrKeepRaw) {
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

// removePacked removes the adopted inodes that the pack holds: all of blobs/
// by one rename if nothing else is in it, else one by one.
func (l *Log) removePacked(ctx context.Context, dirfd int, p *store.PackReader, blobs []store.Blob, others int) error {
	if err := fault.Point("pack.remove"); err != nil {
		return err
	}
	base, err := hostfs.OpenDirPathAt(dirfd, "blobs")
	if errors.Is(err, posix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer hostfs.Close(base)
	raw := slices.ContainsFunc(blobs, func(b store.Blob) bool { return !p.Has(b.Obj) })
	if !raw && others == 0 {
		return l.discardDir(dirfd, "blobs")
	}
	shards := store.ShardDirs{Base: base}
	defer shards.Close()
	for _, b := range blobs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !p.Has(b.Obj) {
			continue
		}
		sub, err := shards.Of(b.Obj)
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
func (l *Log) removeBlob(sub int, b store.Blob) error {
	if b.Stat.IsDir() {
		// One that its owner may not write to cannot be moved; the records have its mode.
		_, _, err := hostfs.AllowAt(sub, store.BlobName(b.Obj), 0o700, func() error { return l.discardDir(sub, store.BlobName(b.Obj)) })
		return err
	}
	if err := fault.Point("pack.unlink"); err != nil {
		return err
	}
	return l.held.Change(b.Stat.ID, -1, func() error { return hostfs.UnlinkAt(sub, store.BlobName(b.Obj)) })
}

// noteCompressed writes the new size into the summary and the list.
func (l *Log) noteCompressed(e *stepEntry, dirfd int) error {
	n, err := store.DiskUsage(dirfd)
	if err != nil {
		return err
	}
	now := *e
	now.Compressed, now.StoredBytes = true, n
	if e.Damaged == "" {
		if err := store.WriteSummary(dirfd, now.Entry); err != nil {
			return err
		}
	}
	l.known.change(func(k *lists) {
		if i := slices.Index(k.steps, e); i >= 0 {
			k.steps = slices.Clone(k.steps)
			k.steps[i] = &now
		}
	})
	return nil
}
