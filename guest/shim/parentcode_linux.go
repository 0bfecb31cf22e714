//go:build amd64 || arm64

package shim

import "unsafe"

// parentCode returns where the code of parentProgram begins, and the number that an ELF file has for this processor.
func parentCode() (start unsafe.Pointer, machine uint16)
