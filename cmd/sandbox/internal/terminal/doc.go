// Package terminal joins the user's terminal with the pseudo-terminal of a command
// ([Relay]), and asks questions on a terminal ([Relay.Ask], [PromptOn]).
//
// While a relay runs, the user's terminal is raw: every key goes to the command,
// Ctrl-C and Ctrl-Z too. [Relay.Stop] gives it back as it was, and must be called
// also when something panics. One goroutine moves all bytes and runs the prompts,
// so that nothing else reads or writes while a question is on the screen.
//
// A process in the background that reads a terminal, or changes it, is stopped by
// the kernel. Therefore a relay looks first whether it is in the foreground, and
// waits until it is.
package terminal
