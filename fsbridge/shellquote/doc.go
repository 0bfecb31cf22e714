// Package shellquote writes words so that a shell reads them as they are.
//
// It imports nothing, because cmd/sandbox/internal/shortcut, which is initialised before most of the program, needs it.
package shellquote
