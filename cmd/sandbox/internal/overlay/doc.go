// Package overlay has the commands of 'sandbox overlay': they show what commands in jails have written to
// caches and other overlays, put it into the host's directories, or throw it away. What they show was written
// by hostile programs: names are printed quoted, and package places guards the rest.
//
// They are for one goroutine.
package overlay
