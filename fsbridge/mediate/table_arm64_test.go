//go:build linux

package mediate

func oldCalls() []notifiedCall { return nil }
