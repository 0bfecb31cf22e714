//go:build !linux

package qemu

import (
	"errors"
	"os"
)

// namesOnly says that this system's QEMU inherits no descriptors.
const namesOnly = true

func inheritedPair() (*end, *os.File, error) { return nil, nil, errors.ErrUnsupported }

func inheritedMonitor(*wires) (monitorEnd, error) { return monitorEnd{}, errors.ErrUnsupported }

// sameUser tells whether QEMU runs as this user.
func sameUser() bool { return true }

// lend leaves a socket, or the directory of sockets, to the user, who is QEMU's too.
func lend(string) error { return nil }

// readable returns the file: QEMU's user is this one.
func readable(f *os.File) (*os.File, error) { return f, nil }
