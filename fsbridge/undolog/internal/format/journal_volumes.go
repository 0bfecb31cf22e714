package format

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Device numbers are the kernel's, and another file system's when that is mounted again. So
// a log has numbers of its own for file systems. The working folder's is 0, so that all
// that matters most needs no table.

const (
	// LogVolume is the file system of the undo directory, if that is not the folder's.
	LogVolume = 1
	// OtherVolume and what follows are those of what is mounted in the folder. Numbers
	// between these are device numbers that an older version wrote.
	OtherVolume = 1 << 32
	// unknownDevice is set in what stands for the device of a file system that is not there.
	unknownDevice = 1 << 63
)

// Volumes translates between inodes as the kernel names them and as a log does. It may be
// used concurrently. A nil one leaves everything as it is.
type Volumes struct {
	root uint64 // device
	add  func(dev uint64) uint64

	mu  sync.Mutex // of who adds
	now atomic.Pointer[volumes]
}

type volumes struct {
	byDev map[uint64]uint64
	byNum map[uint64]uint64
}

// NewVolumes makes a translation with root as the folder's device. known are the devices of
// the other numbers as far as they are there; add gives a number to one more device.
func NewVolumes(root uint64, known map[uint64]uint64, add func(dev uint64) uint64) *Volumes {
	v := &Volumes{root: root, add: add}
	now := &volumes{byDev: map[uint64]uint64{}, byNum: maps.Clone(known)}
	for num, dev := range known {
		if num == LogVolume || num >= OtherVolume {
			now.byDev[dev] = num
		}
	}
	v.now.Store(now)
	return v
}

// Disk is id as it stands in the log.
func (v *Volumes) Disk(id hostfs.ID) hostfs.ID {
	switch {
	case v == nil || id.Ino == 0:
	case id.Dev == v.root:
		id.Dev = 0
	case id.Dev&unknownDevice != 0:
		id.Dev &^= unknownDevice
	default:
		num, ok := v.now.Load().byDev[id.Dev]
		if !ok {
			num = v.number(id.Dev)
		}
		id.Dev = num
	}
	return id
}

// number gives a device its number.
func (v *Volumes) number(dev uint64) uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	was := v.now.Load()
	if num, ok := was.byDev[dev]; ok {
		return num
	}
	num := v.add(dev)
	next := &volumes{byDev: maps.Clone(was.byDev), byNum: maps.Clone(was.byNum)}
	if next.byNum == nil {
		next.byNum = map[uint64]uint64{}
	}
	next.byDev[dev], next.byNum[num] = num, dev
	v.now.Store(next)
	return num
}

// Live is id, which stands in the log, as the kernel names it now. Where its file system is
// not there, no inode has that name.
func (v *Volumes) Live(id hostfs.ID) hostfs.ID {
	if v == nil || id.Ino == 0 {
		return id
	}
	if id.Dev == 0 {
		id.Dev = v.root
	} else if dev, ok := v.now.Load().byNum[id.Dev]; ok {
		id.Dev = dev
	} else {
		id.Dev |= unknownDevice
	}
	return id
}

// Live makes the set's inodes those of now.
func (r *RecordSet) Live(v *Volumes) *RecordSet {
	for _, o := range r.Objects {
		o.ID = v.Live(o.ID)
	}
	return r
}
