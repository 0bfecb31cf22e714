//go:build !race

package require

// Race tells whether there is the race detector.
const Race = false
