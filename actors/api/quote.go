package api

import "github.com/codeagent/sandbox/fsbridge/shellquote"

// ShellQuote joins words so that a shell reads them as they are.
func ShellQuote(words ...string) string { return shellquote.Words(words...) }
