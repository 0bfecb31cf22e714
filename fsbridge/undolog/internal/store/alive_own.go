package store

import (
	"math"
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// OwnAlive tells which changes of inodes were the own ones of an open step: it has noted when the step changed each of them
// last. What was changed later was changed by somebody else. Inodes share places in a table of a fixed size, and the
// later moment counts for all that share one. So what it calls somebody else's is. A nil Own calls nothing so. Methods
// are safe for concurrent use.
type OwnAlive struct {
	start int64
	last  [places]atomic.Int64 // 0: not since start; lent
}

const (
	places = 1 << 12
	// lent is at the place of an inode that can be changed without a note.
	lent = math.MaxInt64
)

// NewOwnAlive is for a step that begins to change the folder behind root. It is nil if the times of files there are not of
// this kernel's clock.
func NewOwnAlive(root int) *OwnAlive {
	f, err := hostfs.Statfs(root)
	if err != nil {
		return nil
	}
	switch uint32(f.Type) {
	case posix.NFS_SUPER_MAGIC, posix.SMB_SUPER_MAGIC, posix.SMB2_SUPER_MAGIC, posix.CIFS_SUPER_MAGIC, posix.CEPH_SUPER_MAGIC,
		posix.AFS_SUPER_MAGIC, posix.AFS_FS_MAGIC, posix.CODA_SUPER_MAGIC, posix.V9FS_MAGIC, posix.FUSE_SUPER_MAGIC, posix.OCFS2_SUPER_MAGIC:
		return nil
	}
	return &OwnAlive{start: posix.Now()}
}

func placeOf(ino uint64) int {
	return int(ino * 0x9e3779b97f4a7c15 >> 52) // the upper bits of a product by the golden ratio
}

// Changed notes that the step has changed the inode id.
func (o *OwnAlive) Changed(id hostfs.ID) {
	if o == nil || id.Ino == 0 {
		return
	}
	raise(&o.last[placeOf(id.Ino)], posix.Now())
}

// Lent notes that the inode id can be changed from now on without a note.
func (o *OwnAlive) Lent(id hostfs.ID) {
	if o != nil && id.Ino != 0 {
		o.last[placeOf(id.Ino)].Store(lent)
	}
}

// OnlyLent says that all that was lent was given back by now, but for what is listed.
func (o *OwnAlive) OnlyLent(ids []hostfs.ID) {
	if o == nil {
		return
	}
	still := make(map[int]bool, len(ids))
	for _, id := range ids {
		still[placeOf(id.Ino)] = true
	}
	now := posix.Now()
	for i := range o.last {
		if !still[i] {
			o.last[i].CompareAndSwap(lent, now)
		}
	}
	for i := range still {
		o.last[i].Store(lent)
	}
}

func raise(to *atomic.Int64, at int64) {
	for {
		was := to.Load()
		if was >= at || to.CompareAndSwap(was, at) {
			return
		}
	}
}

// Foreign tells whether somebody else has changed the inode that is as st says after the step did.
func (o *OwnAlive) Foreign(st *hostfs.Stat) bool {
	if o == nil {
		return false
	}
	last := o.last[placeOf(st.Ino)].Load()
	return last != lent && st.Ctime > max(last, o.start) // a file's clock is never ahead of ours
}
