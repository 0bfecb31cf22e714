package seatbelt

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

//go:linkname syscallSyscall syscall.syscall
func syscallSyscall(fn, a1, a2, a3 uintptr) (r1, r2 uintptr, err syscall.Errno)

// sandboxInitAddress is the address of what apply_darwin.s has.
var sandboxInitAddress uintptr

//go:cgo_import_dynamic libc_sandbox_init sandbox_init "/usr/lib/libSystem.B.dylib"

// Apply puts this process behind a profile, for good.
func Apply(profile string) error {
	text, err := unix.BytePtrFromString(profile)
	if err != nil {
		return err
	}
	var why *byte
	if r, _, _ := syscallSyscall(sandboxInitAddress, uintptr(unsafe.Pointer(text)), 0, uintptr(unsafe.Pointer(&why))); int32(r) == 0 {
		return nil
	}
	if why == nil {
		return errors.New("seatbelt: the profile was not taken")
	}
	return fmt.Errorf("seatbelt: %s", unix.BytePtrToString(why))
}
