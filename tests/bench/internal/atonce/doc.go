// Package atonce measures commands that run at once, as an agent's parallel tool calls do.
package atonce
