// Package audit is the actor that keeps the decisions log: one JSON line for
// each safeguard that was decided, appended to a file that nobody rewrites. A
// line that cannot be written is logged and lost; no decision waits for it.
package audit
