// Package exit is how the program ends: its exit statuses, and the errors that
// choose one. Any other error is the status Failed.
package exit
