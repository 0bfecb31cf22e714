// Package agents knows the configuration files of coding agents: which clients there are, how an entry is put into their JSON and taken out
// again, and what a hook answers.
//
// # Their files
//
// This part knows the files of agents: where they keep their list of MCP servers, the
// hooks that they ask before they run a tool, and commands of the user's. It puts our entries
// there, or takes them out. docs/mcp-clients.md and docs/agents.md have the places and their
// sources.
//
// A file belongs to the client, so nothing in it may be lost. Only our entry is edited (package
// jsonc, and table.go for TOML). If the entry is there already, only what we set is edited. A
// copy of the file is kept beside it. A rename replaces the file, so a client never reads half
// of it. A second run changes nothing. Removing takes the copies into account: what was there
// before is there again, byte for byte.
//
// # Editing JSON
//
// This part sets and removes one member of a JSON document, or one element of an
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
//
// # Hooks
//
// This part answers agents' questions before they run a tool: a shell command is to go
// through 'sandbox run'. docs/agents.md says what each client asks, and where that is
// documented.
//
// The question is hostile input: a model wrote the command. The command becomes one argument
// of a shell inside of the sandbox, quoted so that the client's own shell sees one word and
// nothing else. The other fields of the tool's input stay byte for byte, and the input of
// another tool is not touched. What is not understood is an error, never a command that runs
// as it was: a client must not run anything then (exit status 2).
//
// Functions are pure and safe for concurrent use.
package agents
