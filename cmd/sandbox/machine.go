package main

import (
	"context"
	"runtime"
	"time"

	"github.com/codeagent/sandbox/guest/image"
	"github.com/codeagent/sandbox/hypervisor/qemu"
)

// machine is the runtime of --isolation vm.
func (a *app) machine() *qemu.Runtime {
	vm := a.conf.VM
	return qemu.New(qemu.Options{
		Image: a.openImage, Program: vm.QEMU, Accel: vm.Acceleration, MemoryBytes: int64(vm.Memory), CPUs: vm.CPUs,
		BootTimeout: time.Duration(vm.BootTimeout), NineP: vm.FSBackend == "9p", Umask: a.umask, Logger: a.log,
	})
}

// openImage opens what a machine boots: the user's own files, and for what he
// does not name the image that 'sandbox guest build' has made.
func (a *app) openImage(context.Context) (qemu.Image, error) {
	s := image.Source{Arch: runtime.GOARCH, Guest: guestBinary(), KernelPath: a.conf.VM.Kernel, InitrdPath: a.conf.VM.Initrd}
	if s.KernelPath == "" || s.InitrdPath == "" {
		var err error
		if s.Dir, err = image.DefaultDir(); err != nil {
			return qemu.Image{}, err
		}
	}
	f, err := s.Open()
	return qemu.Image{Kernel: f.Kernel, Initrd: f.Initrd, Version: f.Version}, err
}
