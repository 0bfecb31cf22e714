// Package figures counts what a server of notifications does. Everything is safe for
// concurrent use, and nothing locks.
package figures
