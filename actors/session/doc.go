// Package session holds the actors that are parents: the session itself, with
// its state (idle, starting, active, stopping, failed), and the directory, a
// group of one working folder's actors. They spawn their children under fixed
// names, supervise them, and know nothing else about them.
package session
