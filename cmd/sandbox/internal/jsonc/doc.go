// Package jsonc sets and removes one member of a JSON document and leaves every
// other byte as it is: the order of keys, numbers of any size, indentation, line
// ends and, where the dialect has them, comments and trailing commas.
//
// A document is parsed completely before it is edited, so a document that is not
// valid is never touched. The result is parsed again. Nesting is bounded.
//
// The package does not use github.com/tailscale/hujson. That refuses what clients and
// editors accept: a line comment at the end of the file without a line end, and bytes
// in a comment that are not UTF-8. It has no limit of depth, and it adds members
// without the document's layout.
//
// All functions are pure and safe for concurrent use.
package jsonc
