// Package devtools works in a folder as a developer does, with tools that nobody
// here wrote: package managers that fetch through the allow-list network.
//
// The registries are the tests' own, on the host's loopback, and speak the
// protocols of the real ones.
package devtools
