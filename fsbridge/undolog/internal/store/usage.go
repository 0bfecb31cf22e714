package store

import "github.com/codeagent/sandbox/fsbridge/hostfs"

// What a record set takes is what its files and directories occupy on the disk: blocks, not
// sizes. A step counts that as it goes on, so that nobody has to walk through its blobs when it
// is closed; [DiskUsage] walks.

// Keep says that what st describes belongs to the record set from now on.
func (d *StepDir) Keep(st *hostfs.Stat) { d.kept.Add(st.Blocks * 512) }

// keepFD is Keep for what is behind fd.
func (d *StepDir) keepFD(fd int) {
	if st, err := hostfs.StatFD(fd); err == nil {
		d.Keep(&st)
	}
}

// blockBytes is what a small file occupies on most file systems.
const blockBytes = 4096

// Usage is what the record set occupies on the disk, in bytes: what [StepDir.Keep] was told of, and
// the few files that are not below blobs/. summary.json, which tells it, is taken for a block.
func (d *StepDir) Usage() int64 {
	total := d.kept.Load() + blockBytes
	if st, err := hostfs.StatFD(d.FD); err == nil {
		total += st.Blocks * 512
	}
	for _, name := range []string{"blobs", "journal", "paths"} {
		if st, err := hostfs.StatAt(d.FD, name); err == nil {
			total += st.Blocks * 512
		}
	}
	return total
}

// DiskUsage sums what the files below dirfd occupy, in bytes. What an adopted
// directory denies us is left out.
func DiskUsage(dirfd int) (total int64, err error) {
	st, err := hostfs.StatFD(dirfd)
	if err != nil {
		return 0, err
	}
	total = st.Blocks * 512
	err = hostfs.Walk(dirfd, maxDepth, func(fd int, _ string, d *hostfs.Dirent) error {
		if st, err := hostfs.StatAt(fd, d.Name); err == nil {
			total += st.Blocks * 512
		}
		return nil
	})
	return total, err
}
