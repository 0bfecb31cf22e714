package main

import (
	"context"
	"errors"
	"fmt"
	"os"
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
		BootTimeout: time.Duration(vm.BootTimeout), Umask: a.umask, Logger: a.log,
	})
}

// openImage opens what a machine boots: the user's own files, and for what he
// does not name the image that 'sandbox guest build' has made.
func (a *app) openImage(context.Context) (img qemu.Image, err error) {
	kernel, initrd := a.conf.VM.Kernel, a.conf.VM.Initrd
	if kernel == "" || initrd == "" {
		dir, err := image.DefaultDir()
		if err != nil {
			return img, err
		}
		built, err := image.Open(dir, runtime.GOARCH, false)
		if err != nil {
			return img, err
		}
		if kernel == "" {
			kernel, img.Version = built.Kernel(), built.Manifest.Kernel
		}
		if initrd == "" {
			if initrd, err = built.Initrd(guestBinary()); err != nil {
				return img, err
			}
		}
	}
	if img.Kernel, err = os.Open(kernel); err != nil {
		return img, fmt.Errorf("the guest's kernel: %w", err)
	}
	if img.Initrd, err = os.Open(initrd); err != nil {
		return img, errors.Join(fmt.Errorf("the guest's initramfs: %w", err), img.Kernel.Close())
	}
	return img, nil
}
