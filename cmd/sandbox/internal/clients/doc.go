// Package clients knows where MCP clients keep their list of servers and puts an
// entry in there, or takes it out. docs/mcp-clients.md has the places and where
// they are from.
//
// The file is the client's: nothing in it is lost. Only our entry is edited
// (package jsonc), of an entry that is there already only the members that we
// set; a copy of the file is kept beside it, and it is replaced by a rename, so
// that a client never reads half of one. A second run changes nothing.
package clients
