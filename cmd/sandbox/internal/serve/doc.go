// Package serve lets another program drive sessions ([Run]): it composes the
// frontends (actors/frontend/stdio and mcp) with what the configuration asks for.
//
// What is set for a session comes, from strong to weak, from locks of the
// organisation, the client's request, the flags, the files. A client cannot change
// what is locked while the session runs either.
//
// stdout belongs to the protocol: what anything else writes there goes to stderr.
// The classifier's opinion of a command is advice: it decides whether a person is
// asked first, and protects nothing.
package serve
