//go:build linux && !amd64 && !arm64

package shim

import "unsafe"

// parentCode has no code for this processor: process 1 is the commands' parent.
func parentCode() (start unsafe.Pointer, machine uint16) { return nil, 0 }
