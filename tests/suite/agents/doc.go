// Package agents runs coding agents that nobody here wrote, from npm, in the jail:
// Codex, opencode and Gemini CLI. Their model is a script, served on loopback in
// each one's own protocol; everything else is real: the agent, its profile, the
// hook that 'sandbox install --shell' gives it, the allow-list network.
//
// Each agent has the same conversation: it edits a file, runs commands, two of
// them at the same time, and deletes a tree. The server records the folder before
// each answer. Afterwards each of the steps is undone alone, and the folder must be
// what it was then.
//
// package-lock.json pins the agents; tests/kit/npm installs them.
package agents
