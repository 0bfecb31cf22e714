// Package host finds out what this machine lets a jail do: its kernel, its settings, its devices.
// It says in words for people what to change.
package host
