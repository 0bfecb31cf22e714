// Package classifier says of a shell command, without running it, whether it
// only reads, writes, or destroys, and what about it looks suspicious.
//
// It is advice and never the protection: what a command may do is decided by
// the sandbox and kept by the undo log, whatever is said here. A shell can hide
// anything from a reader of its text. So the classifier errs upwards: a command
// that it does not know, a name that is computed, text that it cannot parse is
// [Write], with a reason.
//
// The text is parsed as bash (mvdan.cc/sh/v3/syntax), and every simple command in
// the tree is classified by the rules for its program. Programs that run another
// program (sudo, env, xargs, find -exec, sh -c, eval ...) are looked through.
// Nothing is expanded and nothing is read from disk.
//
// It is pure: the same text gives the same [Result]; time and memory are
// bounded by [Config.MaxBytes]; a [Classifier] is safe for concurrent use. Text
// put after a command and a separator never lowers the command's class; script.go
// says how.
//
// It does not trust the text, nor that the parser can cope with it: it limits how
// deep and how often the parser reads, and survives its panics.
package classifier
