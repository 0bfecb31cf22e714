//go:build !linux

package allowance

import (
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Allowance is for Linux only: elsewhere there is none.
type Allowance struct{}

// Folder is for Linux only.
type Folder struct{}

// New returns nil.
func New(Options) *Allowance { return nil }

// Limit returns zeros.
func (*Allowance) Limit() (limit, used int64) { return 0, 0 }

// Reached returns 0.
func (*Allowance) Reached() int64 { return 0 }

// Close does nothing.
func (*Allowance) Close() {}

// Add returns nil.
func (*Allowance) Add(*hostfs.Root, string, string) *Folder { return nil }

// Guard returns next.
func (*Folder) Guard(next fsbridge.Interceptor) fsbridge.Interceptor { return next }
