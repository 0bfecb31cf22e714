//go:build !linux

package fsbridge

import (
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Allowance is for Linux only: elsewhere there is none.
type Allowance struct{}

// AllowanceFolder is for Linux only.
type AllowanceFolder struct{}

// NewAllowance returns nil.
func NewAllowance(AllowanceOptions) *Allowance { return nil }

// Limit returns zeros.
func (*Allowance) Limit() (limit, used int64) { return 0, 0 }

// Reached returns 0.
func (*Allowance) Reached() int64 { return 0 }

// Close does nothing.
func (*Allowance) Close() {}

// Add returns nil.
func (*Allowance) Add(*hostfs.Root, string, string) *AllowanceFolder { return nil }

// Guard returns next.
func (*AllowanceFolder) Guard(next Interceptor) Interceptor { return next }
