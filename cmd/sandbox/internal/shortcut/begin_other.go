//go:build !linux

package shortcut

func begin() (*Run, bool) { return nil, false }
