package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// cycle is unreachable as soon as it is made, so that its finalizer runs after each collection.
type cycle struct {
	_ [16]byte // an object that is smaller may share its memory with others, and live as long as they do
	// least is the limit where little lives, in bytes.
	least int64
}

// Limit limits what the runtime takes from the system to least bytes, or to twice what lives
// if that is more.
func Limit(least int64) {
	debug.SetMemoryLimit(least)
	watch(least)
}

// watch sees to it that the limit is looked at after the next collection, and after each one then.
func watch(least int64) {
	runtime.SetFinalizer(&cycle{least: least}, func(c *cycle) {
		debug.SetMemoryLimit(max(c.least, 2*live()))
		watch(c.least)
	})
}

// live is how many bytes the last collection has found to be in use.
func live() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0 // a runtime that does not tell it
	}
	return int64(min(sample[0].Value.Uint64(), 1<<60))
}
