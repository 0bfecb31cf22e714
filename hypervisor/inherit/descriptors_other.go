//go:build !linux

package inherit

// PassedDescriptors are none: no runtime here passes descriptors.
func PassedDescriptors() []int { return nil }

// KeepDescriptors has nothing to do.
func KeepDescriptors([]int) {}

// CheckDescriptor passes none.
func CheckDescriptor(int, UseDescriptors) error { return UnknownDescriptor }
