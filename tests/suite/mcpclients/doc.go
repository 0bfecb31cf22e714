// Package mcpclients drives the real program with MCP clients that nobody here
// wrote: the command line of the MCP inspector, and the TypeScript SDK. Every
// tool is called by each of them, in a session in the jail.
//
// package-lock.json pins them; the tests install them, once, into node_modules
// beside it, by npm ci and without running anything of theirs; with them comes
// the node that they need, which is newer than the one of Debian 12.
package mcpclients
