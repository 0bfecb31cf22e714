// Package npm installs the packages that a test's package-lock.json pins, once,
// for all tests and processes, and without running anything of theirs.
package npm
