// Package approvals is the command 'sandbox approvals': a terminal of its own in which a person decides what waits, beside
// an agent that has a whole terminal to itself.
//
// The connection ([feed]) looks for sessions, hears their events and asks them what waits and what was decided; the model
// ([model]) is what is shown and which key does what. The model starts no goroutine and asks nobody, so it is tested without a terminal.
//
// What always holds: a key answers only the question that is on the screen when it is pressed. If another question takes its
// place, keys that answer do nothing for a moment. Everything that a session says is shown through fsbridge/printable.
package approvals
