// Package format turns what the program prints into text: the result of a command
// ([Output]), figures and names ([Bytes], [Ago], [Shown]), and steps of the undo
// log. It decides nothing and asks nobody.
//
// Names and texts that come from a folder, or from what ran in it, are hostile: a
// terminal acts on escape sequences. Whatever prints one passes it through
// [Shown] or [OneLine] first.
//
// Functions keep no state, so they are safe for concurrent use.
package format
