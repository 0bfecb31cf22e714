//go:build race

package require

// Race tells whether there is the race detector. With it a program starts, and all that is counted goes, up to ten times as slowly.
const Race = true
