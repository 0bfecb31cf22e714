// Package audit is the actor that keeps the decisions log: one JSON line for
// each question that was decided, by a person or because nobody did, and for each
// destination that a rule of the network allowed or denied, the first time in a
// session. Before a session's first decision stands a line that says under what it
// decided.
//
// The log is chained (package chain): nobody rewrites it, and who did is found. It lies
// beside the first folder's undo log. A line that cannot be written is logged and lost;
// no decision waits for it.
package audit
