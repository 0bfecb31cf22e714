//go:build !linux

package container
