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
//
// # 'sandbox ui'
//
// This part is the command 'sandbox ui': it serves the page of package actors/frontend/ui on a
// loopback address, and gives it what the other commands know.
//
// What a command prints as JSON (the findings of 'doctor', the configuration with its origins) is taken
// from that command: the program runs itself, and so says the same on the page as in the terminal.
//
// # What a shell command may do
//
// This part says of a shell command, without running it, whether it
// only reads, writes, or destroys, and what about it looks suspicious.
//
// It is advice and never the protection: what a command may do is decided by
// the sandbox and kept by the undo log, whatever is said here. A shell can hide
// anything from a reader of its text. So the classifier errs upwards: a command
// that it does not know, a name that is computed, text that it cannot parse is
// [WriteClass], with a reason.
//
// The text is parsed as bash (mvdan.cc/sh/v3/syntax), and every simple command in
// the tree is classified by the rules for its program. Programs that run another
// program (sudo, env, xargs, find -exec, sh -c, eval ...) are looked through.
// Nothing is expanded and nothing is read from disk.
//
// It is pure: the same text gives the same [Classified]; time and memory are
// bounded by [ClassifierConfig.MaxBytes]; a [Classifier] is safe for concurrent use. Text
// put after a command and a separator never lowers the command's class; script.go
// says how.
//
// It does not trust the text, nor that the parser can cope with it: it limits how
// deep and how often the parser reads, and survives its panics.
package serve
