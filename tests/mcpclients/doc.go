// Package mcpclients drives the real program with MCP clients that nobody here
// wrote: the command line of the MCP inspector, and the TypeScript SDK. Every
// tool is called by each of them, in a session in the jail.
//
// package-lock.json pins them; the tests install them, once, into node_modules
// beside it, by npm ci and without running anything of theirs. They work with
// node 18 (Debian 12's) and later.
package mcpclients
