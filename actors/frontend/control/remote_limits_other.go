//go:build !linux

package control

import "github.com/codeagent/sandbox/hypervisor"

// limitsOf returns nothing: there are no jails here.
func limitsOf(int) *hypervisor.ProcessLimits { return nil }
