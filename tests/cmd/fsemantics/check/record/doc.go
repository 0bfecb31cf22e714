// Package record is what the checks use: a recorder of what they see, and system calls that
// package unix does not have or changes.
package record
