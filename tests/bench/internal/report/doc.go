// Package report collects what a benchmark has measured, and shows it beside its goals: as lines while it
// comes, as a table, and as JSON.
package report
