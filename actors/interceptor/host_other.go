//go:build !linux

package interceptor

import "github.com/codeagent/sandbox/fsbridge"

// dying cannot tell here; a held operation then waits for its decision.
func dying(uint32) bool { return false }

func statSize(*fsbridge.Object) (int64, bool) { return 0, false }

func renew(*fsbridge.Op) error { return nil }
