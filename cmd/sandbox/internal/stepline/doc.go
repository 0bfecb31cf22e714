// Package stepline writes the line about a step that changed something. 'sandbox run' prints it at the end of a command: the program as
// a whole, and cmd/sandbox/internal/shortcut, which is initialised before most of the program. So it imports nothing
// that is initialised late.
package stepline
