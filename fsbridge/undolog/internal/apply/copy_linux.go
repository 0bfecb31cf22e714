package apply

import (
	"os"
	"path"

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
	return hostfs.CopyData(out, in, st.Size)
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
		if err := c.tree(in, x.Name, out, x.Name, path.Join(rel, x.Name), depth+1); err != nil {
			return err
		}
	}
	return nil
}
