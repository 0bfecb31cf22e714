package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// files collects what QEMU inherits: numbers from 3 on.
type files struct {
	inherit []*os.File // ours until the start, then closed
	keep    []io.Closer
}

// add gives QEMU a file and returns its number there.
func (f *files) add(file *os.File) int {
	f.inherit = append(f.inherit, file)
	return 2 + len(f.inherit)
}

// pair makes a connection: QEMU's end by option, ours as a file.
func (f *files) pair() (end string, ours *os.File, err error) {
	ours, theirs, err := control.SocketPair()
	if err != nil {
		return "", nil, err
	}
	f.keep = append(f.keep, ours)
	return fmt.Sprintf("fd=%d", f.add(theirs)), ours, nil
}

// drop closes QEMU's ends, and with ours set the others too.
func (f *files) drop(ours bool) {
	for _, x := range f.inherit {
		_ = x.Close()
	}
	if ours {
		for _, x := range f.keep {
			_ = x.Close()
		}
	}
}

// image opens the kernel and the initramfs for QEMU.
func (g *guest) image(ctx context.Context, m *machine, f *files) error {
	img, err := g.o.Image(ctx)
	if err != nil {
		return err
	}
	g.kernel = img.Version
	if img.RootFS != nil {
		m.rootfs, g.rootfs = f.add(img.RootFS), true
	}
	for _, p := range []struct {
		file *os.File
		path *string
	}{{img.Kernel, &m.kernel}, {img.Initrd, &m.initrd}} {
		file, err := readable(p.file)
		if err != nil {
			return err
		}
		*p.path = fmt.Sprintf("/proc/self/fd/%d", f.add(file))
	}
	if g.o.Disk.Path == "" {
		return nil
	}
	disk, err := g.o.Disk.Open(ctx)
	if err == nil {
		m.disk = f.add(disk)
	}
	return err
}

// readable returns a file that QEMU's user can open again: the same, or, if only
// root may read it (/boot on some distributions), a copy.
func readable(f *os.File) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 || st.Mode&0o004 != 0 {
		return f, nil
	}
	defer f.Close()
	fd, err := unix.MemfdCreate(filepath.Base(f.Name()), unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	m := os.NewFile(uintptr(fd), f.Name())
	if _, err := io.Copy(m, f); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}
