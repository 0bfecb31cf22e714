package undolog

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

func copyFile(fd int, name string, toFD int, to string, st *hostfs.Stat) error {
	in, err := openForce(entry{fd: fd, name: name}, unix.O_RDONLY, st)
	if err != nil {
		return err
	}
	defer hostfs.Close(in)
	out, err := hostfs.OpenAt(toFD, to, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer hostfs.Close(out)
	return copyData(in, out, st.Size)
}

// copyData copies size bytes into the new file out, holes as holes.
func copyData(in, out int, size int64) error {
	if size > 0 && hostfs.CloneFD(out, in) == nil {
		return nil
	}
	if err := hostfs.TruncateFD(out, size); err != nil {
		return err
	}
	buf := make([]byte, min(max(size, 1), 256<<10))
	for off := int64(0); off < size; {
		start, end, err := hostfs.NextData(in, off, size)
		if err != nil {
			return err
		}
		for off = start; off < end; {
			n, err := hostfs.PreadFull(in, buf[:min(int64(len(buf)), end-off)], off)
			if err != nil {
				return err
			}
			if n == 0 {
				return nil // it shrank meanwhile
			}
			if err := hostfs.PwriteFull(out, buf[:n], off); err != nil {
				return err
			}
			off += int64(n)
		}
		off = end
	}
	return nil
}

func (c *copier) dir(fd int, name string, toFD int, to, rel string, st *hostfs.Stat, depth int) error {
	if err := hostfs.MkdirAt(toFD, to, 0o700); err != nil {
		return err
	}
	if st.Mode&0o500 != 0o500 && os.Geteuid() != 0 {
		if err := hostfs.ChmodAt(fd, name, st.Mode|0o700); err != nil {
			return err
		}
	}
	in, err := hostfs.OpenDirAt(fd, name)
	if err != nil {
		return err
	}
	defer hostfs.Close(in)
	out, err := hostfs.OpenDirPathAt(toFD, to)
	if err != nil {
		return err
	}
	defer hostfs.Close(out)
	entries, err := hostfs.ReadDir(in)
	if err != nil {
		return err
	}
	for _, x := range entries {
		if err := c.tree(in, x.Name, out, x.Name, joinPath(rel, x.Name), depth+1); err != nil {
			return err
		}
	}
	return nil
}
