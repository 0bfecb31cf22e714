// Package drive starts the real program for tests: bin/sandbox of this module
// (or what SANDBOX_BIN names), as make build makes it.
//
// A [Sandbox] is a working folder, an undo directory and a home of their own; a
// test that ends with one must have left no process, no mount and no directory
// behind, which [Sandbox.CheckResidue] asks of the kernel.
package drive
