// Package jsonc sets and removes one member of a JSON document, or one element of an
// array in it, and leaves every other byte as it is: the order of keys, numbers of any size, indentation, line
// ends and, where the dialect has them, comments and trailing commas.
//
// A document is parsed completely before it is edited, so a document that is not
// valid is never touched. The result is parsed again. Nesting is bounded.
//
// github.com/tailscale/hujson parses; what it says is wrong is what an error says. It
// refuses some of what clients and editors accept, and knows no limit of depth: see
// readable and tooDeep. It adds members without the document's layout, so edits are ours.
//
// All functions are pure and safe for concurrent use.
package jsonc
