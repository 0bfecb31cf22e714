// Package hook answers agents' questions before they run a tool: a shell command is to go
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
package hook
