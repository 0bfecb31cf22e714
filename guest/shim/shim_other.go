//go:build !linux

package shim
