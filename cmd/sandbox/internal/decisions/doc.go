// Package decisions is 'sandbox audit': it shows what was decided in a folder, by whom
// and why, and verifies that nobody changed the log (package actors/audit/chain).
//
// It reads the file beside the folder's undo log and asks no session, so it works beside
// one that is live. Nothing in the file is trusted: what is shown is made printable.
package decisions
