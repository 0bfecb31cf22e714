package launch

import (
	"context"
	"path/filepath"
	"runtime"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/guest/image"
	"github.com/codeagent/sandbox/hypervisor/qemu"
)

// Machine is the runtime of --isolation vm, for a session on these folders, or
// on none to find out what works.
func (l *Launcher) Machine(dirs ...api.Directory) (*qemu.Runtime, error) {
	vm := l.Conf.VM
	var disk qemu.Disk
	if vm.Mode == "persistent" && len(dirs) > 0 {
		var err error
		if disk, err = l.Disk(dirs[0].Path); err != nil {
			return nil, err
		}
	}
	outside, err := l.outside()
	if err != nil {
		return nil, err
	}
	sockets, err := l.RuntimeDir()
	if err != nil {
		return nil, err
	}
	return qemu.New(qemu.Options{
		Image: l.openImage, VM: vm.VM, NineP: vm.FSBackend == "9p", Umask: l.Umask, Logger: l.Log,
		Disk: disk, Sockets: sockets, Network: outside, Writable: writable(api.Config{Directories: dirs}),
	}), nil
}

// Disk is the persistent machine's of the session whose first folder it is.
func (l *Launcher) Disk(folder string) (qemu.Disk, error) {
	dir, err := actors.MachineDir(folder)
	return qemu.Disk{Path: filepath.Join(dir, "disk.raw"), Bytes: int64(l.Conf.VM.DiskSize)}, err
}

// machineFiles are those that openImage opens.
func (l *Launcher) machineFiles() (paths []string) {
	if dir, err := image.DefaultDir(); err == nil { // else there is no image that could be opened
		paths = append(paths, dir)
	}
	for _, path := range []string{l.Conf.VM.Kernel, l.Conf.VM.Initrd, l.Conf.VM.RootFS} {
		if filepath.IsAbs(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// Busybox reports whether commands run in virtual machines that have nothing but the busybox of our own image. It is false where there is no image: a session says so.
func (l *Launcher) Busybox(ctx context.Context) bool {
	if l.isolation() != "vm" || l.Conf.VM.Initrd != "" {
		return false
	}
	img, err := l.openImage(ctx)
	if err != nil {
		return false
	}
	_ = image.Files{Kernel: img.Kernel, Initrd: img.Initrd, RootFS: img.RootFS}.Close() // they were read
	return img.RootFS == nil
}

// openImage opens what a machine boots: the user's own files, and for what he
// does not name the image that 'sandbox guest build' has made.
func (l *Launcher) openImage(context.Context) (qemu.Image, error) {
	s := image.Source{Arch: runtime.GOARCH, Guest: EmbeddedGuest(), KernelPath: l.Conf.VM.Kernel, InitrdPath: l.Conf.VM.Initrd}
	switch l.Conf.VM.RootFS {
	case "none":
		s.NoRootFS = true
	default:
		s.RootFSPath = l.Conf.VM.RootFS
	}
	if s.KernelPath == "" || s.InitrdPath == "" || s.RootFSPath == "" && !s.NoRootFS {
		var err error
		if s.Dir, err = image.DefaultDir(); err != nil {
			return qemu.Image{}, err
		}
	}
	f, err := s.Open()
	return qemu.Image{Kernel: f.Kernel, Initrd: f.Initrd, RootFS: f.RootFS, Version: f.Version}, err
}
