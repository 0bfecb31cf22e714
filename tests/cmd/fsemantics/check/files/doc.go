// Package files has the checks about files: attributes, rights, contents, locks, execution,
// processes and descriptors.
package files
