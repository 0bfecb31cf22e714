// Package clients knows where MCP clients keep their list of servers. It puts an
// entry into the list, or takes it out. docs/mcp-clients.md has the places and
// their sources.
//
// The file belongs to the client, so nothing in it may be lost. Only our entry is
// edited (package jsonc). If the entry is there already, only the members that we
// set are edited. A copy of the file is kept beside it. A rename replaces the
// file, so a client never reads half of it. A second run changes nothing.
package clients
