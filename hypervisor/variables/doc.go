// Package variables says which variables of the caller's environment a command gets.
//
// cmd/sandbox/internal/shortcut uses it before most packages are initialised, so it imports the package os
// only: strings and slices are initialised late.
package variables
