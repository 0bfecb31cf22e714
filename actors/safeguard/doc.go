// Package safeguard keeps the questions of a session: which directory holds its
// mutations until somebody decides, who decided, and when nobody did. The first
// decision wins; at the deadline the answer is no, and at once where nobody can answer. Every decision goes to the
// audit log. If this actor crashes, what it was asked is denied.
package safeguard
