// Package approvals is the command 'sandbox approvals': a terminal of its own in which a person decides what waits, beside
// an agent that has a whole terminal to itself.
//
// The connection ([feed]) looks for sessions, hears their events and asks them what waits and what was decided; the model
// ([model]) is what is shown and which key does what. The model starts no goroutine and asks nobody, so it is tested without a terminal.
//
// What always holds: a key answers only the question that is on the screen when it is pressed. If another question takes its
// place, keys that answer do nothing for a moment. Everything that a session says is shown through fsbridge/texts.
//
// # 'sandbox audit'
//
// This part is 'sandbox audit': it shows what was decided in a folder, by whom
// and why, and verifies that nobody changed the log (package actors/approval).
//
// It reads the file beside the folder's undo log and asks no session, so it works beside
// one that is live. Nothing in the file is trusted: what is shown is made printable.
//
// # 'sandbox policy'
//
// This part has the commands of 'sandbox policy': they show the rules of
// actors/approval, check their files, and change those of the user and of the project.
// What is shown may come from a file that somebody else wrote: it is printed quoted.
//
// They ask no session. A session that runs reads the files again when they have changed.
//
// # 'sandbox why'
//
// This part is 'sandbox why': it explains what commands could do with a path, a
// destination or a key, which rule decides that, and what would change it.
//
// It asks no session. What the configuration and the flags say goes through the same code
// that decides in a session: the plan of the jail's view (hypervisor/jail) and the engine
// of the network's policy.
package approvals
