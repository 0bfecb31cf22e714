package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// volumesName is the file with the numbers that a log has for file systems.
const volumesName = "volumes"

// maxVolumes bounds what is read of it, in bytes, and how many there may be.
const (
	maxVolumes     = 1 << 20
	maxVolumeCount = 1 << 12
)

// volumeTable is the file's JSON.
type volumeTable struct {
	// OldRoots are the device numbers that version 2 wrote for the folder's file system.
	OldRoots []uint64 `json:"old_roots,omitempty"`
	Others   []volume `json:"others,omitempty"`
}

// volume is a file system in the folder that is not the folder's.
type volume struct {
	Number uint64 `json:"number"`
	// ID is the file system's own; empty where it is not known.
	ID string `json:"id,omitempty"`
	// Device is its device number, which holds only as long as While is.
	Device uint64 `json:"device"`
	While  string `json:"while,omitempty"`
}

// volumeFile is the file of one log.
type volumeFile struct {
	dir, root *hostfs.Root
	log       *slog.Logger
	table     volumeTable
}

// OpenVolumes reads the numbers of the log in dir, which is of the folder root.
func OpenVolumes(dir, root *hostfs.Root, log *slog.Logger) (*format.Volumes, error) {
	f := &volumeFile{dir: dir, root: root, log: log}
	if err := f.read(); err != nil {
		return nil, Unusable(dir.Path(), err)
	}
	device := root.ID().Dev
	known := map[uint64]uint64{}
	for _, old := range f.table.OldRoots {
		known[old] = device
	}
	if dev := dir.ID().Dev; dev != device {
		known[format.LogVolume] = dev
	}
	if len(f.table.Others) > 0 {
		epoch, mounted := posix.MountEpoch(root.FD()), mountedIn(root)
		for _, v := range f.table.Others {
			if epoch != "" && v.While == epoch {
				known[v.Number] = v.Device
				continue
			}
			for dev, id := range mounted {
				if v.ID != "" && id == v.ID {
					known[v.Number] = dev
				}
			}
		}
	}
	return format.NewVolumes(device, known, f.add), nil
}

func (f *volumeFile) read() error {
	b, err := hostfs.ReadSmall(f.dir.FD(), volumesName, maxVolumes)
	if errors.Is(err, posix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &f.table); err != nil || len(f.table.Others) > maxVolumeCount {
		return fmt.Errorf("the file %s is damaged: %w", volumesName, errors.Join(format.ErrDamaged, err))
	}
	for _, v := range f.table.Others {
		if v.Number < format.OtherVolume {
			return fmt.Errorf("the file %s is damaged: %w", volumesName, format.ErrDamaged)
		}
	}
	return nil
}

func (f *volumeFile) write() error {
	b, err := json.Marshal(&f.table)
	if err != nil {
		return err
	}
	return WriteFile(f.dir.FD(), volumesName, append(b, '\n'))
}

// add gives a number to a device in the folder. If that cannot be written down, the device
// is unknown to who opens the log next.
func (f *volumeFile) add(dev uint64) uint64 {
	epoch := posix.MountEpoch(f.root.FD())
	next := uint64(format.OtherVolume)
	for i := range f.table.Others {
		next = max(next, f.table.Others[i].Number+1)
	}
	v := volume{Number: next, ID: mountedIn(f.root)[dev], Device: dev, While: epoch}
	for _, o := range f.table.Others {
		if v.ID != "" && o.ID == v.ID { // mounted again meanwhile
			v.Number = o.Number
		}
	}
	f.table.Others = append(f.table.Others, v)
	if err := f.write(); err != nil {
		f.log.Warn("number of a file system not written down; what changes in it cannot be undone when the log is opened again", "err", err)
	}
	return v.Number
}

// mountedIn tells the own ids of the file systems that are mounted in the folder, by device.
func mountedIn(root *hostfs.Root) map[uint64]string {
	ids := map[uint64]string{}
	path, err := filepath.EvalSymlinks(root.Path())
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return ids
	}
	mounts, err := posix.MountsBelow(path)
	if err != nil {
		return ids
	}
	for _, at := range mounts {
		if r, err := hostfs.OpenRoot(at); err == nil {
			if l, err := r.Lasting(); err == nil {
				ids[r.ID().Dev] = l.FileSystem
			}
			_ = r.Close()
		}
	}
	return ids
}

// upgrade makes the log in dir, of version 2, one of this version.
func upgrade(dir *hostfs.Root) error {
	roots, err := rootsOf(dir.FD())
	if err != nil {
		return err
	}
	f := &volumeFile{dir: dir}
	for _, id := range roots {
		f.table.OldRoots = append(f.table.OldRoots, id.Dev)
	}
	if err := f.write(); err != nil {
		return err
	}
	return writeVersion(dir)
}
