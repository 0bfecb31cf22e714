//go:build !linux

package stamp

import (
	"os"
	"time"
)

// Of returns nothing: nobody compares here.
func Of(os.FileInfo) string { return "" }

// Settled returns false.
func Settled(os.FileInfo, time.Time) bool { return false }
