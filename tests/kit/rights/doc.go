// Package rights has tests let everybody write to a file or directory, by its mode or by its access list.
package rights
