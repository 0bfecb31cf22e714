// Package logctx makes log lines tell what they belong to: the request that a
// frontend was asked, the step, and the part of the program. The first two
// travel by context; [New] adds them, and what a session knows of its own, to
// records that do not say it themselves.
package logctx
