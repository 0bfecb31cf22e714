package main

import (
	"context"
	"path/filepath"
	"runtime"
	"time"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/guestbin"
	"github.com/codeagent/sandbox/guest/image"
	"github.com/codeagent/sandbox/hypervisor/qemu"
)

// machine is the runtime of --isolation vm, for a session on these folders, or
// on none to find out what works.
func (a *app) machine(dirs ...api.Directory) (*qemu.Runtime, error) {
	vm := a.conf.VM
	var disk qemu.Disk
	if vm.Mode == "persistent" && len(dirs) > 0 {
		var err error
		if disk, err = a.disk(dirs[0].Path); err != nil {
			return nil, err
		}
	}
	return qemu.New(qemu.Options{
		Image: a.openImage, Program: vm.QEMU, Accel: vm.Acceleration, MemoryBytes: int64(vm.Memory), CPUs: vm.CPUs,
		BootTimeout: time.Duration(vm.BootTimeout), NineP: vm.FSBackend == "9p", Umask: a.umask, Logger: a.log,
		Disk: disk,
	}), nil
}

// disk is the persistent machine's of the session whose first folder it is.
func (a *app) disk(folder string) (qemu.Disk, error) {
	dir, err := actors.MachineDir(folder)
	return qemu.Disk{Path: filepath.Join(dir, "disk.raw"), Bytes: int64(a.conf.VM.DiskSize)}, err
}

// openImage opens what a machine boots: the user's own files, and for what he
// does not name the image that 'sandbox guest build' has made.
func (a *app) openImage(context.Context) (qemu.Image, error) {
	s := image.Source{Arch: runtime.GOARCH, Guest: guestbin.Embedded(), KernelPath: a.conf.VM.Kernel, InitrdPath: a.conf.VM.Initrd}
	switch a.conf.VM.RootFS {
	case "none":
		s.NoRootFS = true
	default:
		s.RootFSPath = a.conf.VM.RootFS
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
