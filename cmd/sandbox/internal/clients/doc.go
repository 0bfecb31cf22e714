// Package clients knows the files of agents: where they keep their list of MCP servers, the
// hooks that they ask before they run a tool, and commands of the user's. It puts our entries
// there, or takes them out. docs/mcp-clients.md and docs/agents.md have the places and their
// sources.
//
// A file belongs to the client, so nothing in it may be lost. Only our entry is edited (package
// jsonc, and table.go for TOML). If the entry is there already, only what we set is edited. A
// copy of the file is kept beside it. A rename replaces the file, so a client never reads half
// of it. A second run changes nothing. Removing takes the copies into account: what was there
// before is there again, byte for byte.
package clients
